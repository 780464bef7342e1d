# Groups, sums, strings and a sort over an array of objects.
(group_by(.words) | map({words: .[0].words, sum: (map(.number | tonumber) | add), codes: (map(.code) | unique | length)})
    | sort_by(.sum) | .[:20]),
(map(select(.code | test("delta-[0-9]*3$")) | [.key, .words, .code] | join(",")) | length),
(map(.words | split(" ") | reverse | join("-")) | unique | length)
