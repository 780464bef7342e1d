<?php
header('Content-Type: text/plain');
$n = (int) ($_GET['n'] ?? 0);
$parts = [];
for ($i = 0; $i < $n; $i++) { $parts[] = ['i' => $i, 'text' => str_repeat(chr(97 + $i % 26), $i % 90)]; }
usort($parts, fn($a, $b) => [strlen($a['text']), $b['i']] <=> [strlen($b['text']), $a['i']]);
echo $_SERVER['REQUEST_METHOD'], ' ', count($parts), ' ', hash('sha256', json_encode($parts)), ' ', strlen(file_get_contents('php://input')), "\n";
$text = new DOMDocument();
$text->loadXML('<r>' . implode('', array_map(fn($p) => "<p>{$p['i']}</p>", array_slice($parts, 0, 200))) . '</r>');
echo strlen($text->saveXML()), "\n";
if ($n == 13) { throw new RuntimeException('thirteen'); }
