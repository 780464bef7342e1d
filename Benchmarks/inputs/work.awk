# Fields, associative arrays and strings that grow.
BEGIN { FS = "\t" }
{
    split($2, words, " ")
    sum[words[1]] += $3
    seen[words[1], words[2], $1 % 500]++
    text[words[2]] = text[words[2]] substr($4, 1, 3)
    if (length(text[words[2]]) > 400) { gsub(/a/, "<&>", text[words[2]]); text[words[2]] = toupper(substr(text[words[2]], 1, 20)) }
}
END {
    n = asorti(sum, names)
    for (i = 1; i <= n; i++) printf "%s %d %s\n", names[i], sum[names[i]] % 99991, text[names[i]]
    print length(seen)
}
