<?php
// Arrays, strings, objects and cycles, generators, preg, json, and the extensions that were loaded as shared objects.
mt_srand(5);
$words = [];
for ($i = 0; $i < 900000; $i++) {
    $word = chr(97 + mt_rand(0, 9)) . chr(97 + mt_rand(0, 9)) . chr(97 + mt_rand(0, 9));
    $words[$word] = ($words[$word] ?? 0) + $i % 7;
}
ksort($words);
echo count($words), ' ', hash('sha256', serialize($words)), "\n";

class Node { public ?Node $other = null; public array $data = []; public function __destruct() { global $gone; $gone++; } }
$gone = 0;
for ($i = 0; $i < 120000; $i++) {
    $a = new Node; $b = new Node;
    $a->other = $b; $b->other = $a; $a->data = range(0, 10);
}
unset($a, $b);
gc_collect_cycles();
echo "gone $gone\n";

function numbers(int $n) { for ($i = 0; $i < $n; $i++) yield "k$i" => str_repeat('x', $i % 50); }
$size = 0;
foreach (numbers(200000) as $key => $value) $size += strlen($key) + strlen($value);
echo "size $size\n";

$data = array_map(fn($i) => ['id' => $i, 'name' => "näme $i", 'list' => range(0, $i % 10)], range(1, 40000));
$text = json_encode($data);
echo 'json ', json_decode($text, true) === $data ? 'same' : 'other', ' ', md5($text), "\n";
echo 'preg ', preg_match_all('/"id":(\d+)/', $text), ' ', strlen(preg_replace_callback('/\d+/', fn($m) => $m[0] * 2, $text)), "\n";
usort($data, fn($a, $b) => strcmp(strrev($a['name']), strrev($b['name'])));
echo 'first ', $data[0]['name'], "\n";

echo 'mbstring ', mb_strtoupper('straße äöü'), ' ', mb_strlen(mb_convert_encoding(str_repeat('é€', 5000), 'UTF-16', 'UTF-8'), 'UTF-16'), "\n";
$document = new DOMDocument;
$document->loadXML('<r>' . implode('', array_map(fn($i) => "<i n=\"$i\"><t>" . $i * 2 . '</t></i>', range(1, 3000))) . '</r>');
$path = new DOMXPath($document);
echo 'dom ', $path->evaluate('sum(//i[@n mod 2 = 0]/t)'), ' ', strlen($document->saveXML()), "\n";
$simple = simplexml_load_string($document->saveXML());
echo 'simplexml ', count($simple->i), "\n";
$base = new PDO('sqlite::memory:');
$base->exec('create table t(a integer, b text)');
$insert = $base->prepare('insert into t values(?, ?)');
$base->beginTransaction();
foreach (range(1, 20000) as $i) $insert->execute([$i % 100, "text $i"]);
$base->commit();
echo 'pdo ', json_encode($base->query('select a, count(*), max(b) from t group by a order by a limit 3')->fetchAll(PDO::FETCH_NUM)), "\n";
$collator = new Collator('de_DE');
$names = ['Zebra', 'äpfel', 'Apfel', 'öl', 'ol'];
$collator->sort($names);
echo 'intl ', implode(' ', $names), ' ', (new NumberFormatter('de_DE', NumberFormatter::DECIMAL))->format(1234567.891), "\n";
echo 'normal ', bin2hex(Normalizer::normalize("a\u{308}")), "\n";
$tokens = token_get_all(file_get_contents(__FILE__));
echo 'tokens ', count($tokens) > 100 ? 'many' : 'few', "\n";
$date = new DateTimeImmutable('2024-02-29 12:00', new DateTimeZone('Europe/Zurich'));
echo $date->modify('+1 year')->format(DATE_ATOM), "\n";
echo strlen(gzencode(str_repeat('abc', 100000))) > 100 ? "gz\n" : "no gz\n";
for ($i = 0; $i < 300; $i++) eval("function made_$i(\$x) { return array_sum(array_map(fn(\$y) => \$y * $i, range(1, \$x))); }");
echo made_299(100), "\n";
echo trim(shell_exec('echo from a shell')), "\n";
