# Arrays, functions, subshells, pipelines, here-documents, traps, arithmetic, pattern substitution, many short processes.
set -u
declare -A count
for ((i = 0; i < 20000; i++)); do
    key="k$((i * 7919 % 503))"
    count[$key]=$((${count[$key]:-0} + i))
    ((i % 11 == 0)) && unset "count[$key]"
done
total=0
for key in "${!count[@]}"; do ((total = (total + ${#key} * count[$key]) % 1000003)); done
echo "keys ${#count[@]} total $total"

text=
for i in {1..3000}; do text+="word$i "; done
echo "${#text} ${text//word/w}" | wc -c
list=($text)
echo "${#list[@]} ${list[@]:100:3} ${list[-1]}"
sorted=$(printf '%s\n' "${list[@]}" | sort -r | head -3 | tr '\n' ' ')
echo "sorted $sorted"

factorial() { local n=$1; if ((n < 2)); then echo 1; else echo $((n * $(factorial $((n - 1))))); fi; }
echo "factorial $(factorial 15)"
for i in {1..150}; do (exit $((i % 5))) || status[$?]=$((${status[$?]:-0} + 1)); done
echo "status ${status[*]}"
for i in {1..120}; do /bin/true; ls / >/dev/null; date -u -d @$i +%S; done | sort -n | uniq -c | md5sum
ldd /bin/ls | sed 's/(0x[0-9a-f]*)//; /guard\|scudo\|preload\|vdso/d; s/^[[:space:]]*//' | awk '$1 ~ /selinux|libc/ { print $1 }' | sort
while read -r a b c; do echo "$c-$b-$a"; done <<<"one two three"
trap 'echo "trapped $?"' EXIT
mapfile -t lines < <(seq 1 5000)
echo "mapfile ${#lines[@]}"
coproc cat; echo hello >&"${COPROC[1]}"; read -r answer <&"${COPROC[0]}"; echo "coproc $answer"; kill "$COPROC_PID" 2>/dev/null; wait 2>/dev/null
[[ "2024-02-29" =~ ^([0-9]+)-([0-9]+) ]] && echo "match ${BASH_REMATCH[2]}"
diff <(seq 1 100) <(seq 1 2 100) | wc -l
exit 3
