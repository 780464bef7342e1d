" Edits a large buffer: substitution, global commands, undo, sort, registers, folds, syntax, functions, regular expressions.
set nocompatible nomore undolevels=1000
syntax on
edit input.txt
let g:lines = line('$')
%s/\v(\w+)-(\d+)$/\2:\1/
global/^\d*7\t/move 0
silent! normal! gg100dd500jp
undo
redo
%sort n
vglobal/amber\|cedar/delete
let words = {}
for line in getline(1, '$')
  for word in split(line, '\W\+')
    let words[word] = get(words, word, 0) + 1
  endfor
endfor
function! Deep(n)
  return a:n == 0 ? 0 : 1 + Deep(a:n - 1)
endfunction
let result = [g:lines, line('$'), len(words), Deep(90), string(sort(keys(words))[:5])]
for i in range(1, 300)
  execute 'normal! Gohello ' . i
  execute 'normal! :s/hello/HELLO/' . "\<CR>"
  if i % 3 == 0 | undo | endif
endfor
set foldmethod=indent
normal! zMzR
call append(0, result)
new
call setline(1, map(range(2000), {i, v -> printf('%05d', v * 7919 % 10007)}))
%sort
write! second.txt
bwipeout!
set fileformat=dos
write! output.txt
quitall!
