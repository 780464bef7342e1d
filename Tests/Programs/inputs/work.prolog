% Stacks that move when they grow, an exhausted stack, threads, sorting, atoms, collections of garbage.
:- initialization(main).

fib(0, 0).
fib(1, 1).
fib(N, F) :- N > 1, A is N - 1, B is N - 2, fib(A, X), fib(B, Y), F is X + Y.

deep(N, s(X)) :- M is N + 1, deep(M, X), true.

sorted(I, R) :- numlist(1, 5000, L), reverse(L, M), msort(M, K), length(K, Z), R is Z * I.

main :-
    fib(19, F), writeln(F),
    numlist(1, 100000, L), sum_list(L, S), writeln(S),
    catch(deep(0, _), error(E, _), (E =.. [W|_], writeln(W))),
    numlist(1, 8, Is), concurrent_maplist(sorted, Is, Rs), writeln(Rs),
    findall(A, (between(1, 20000, I), atom_concat(name_, I, A)), As), length(As, Count), writeln(Count),
    length(Long, 300000), length(Long, Length), writeln(Length),
    garbage_collect, garbage_collect_atoms,
    catch(_ is 1 / 0, error(Q, _), writeln(Q)),
    thread_create(sorted(3, _), T), thread_join(T, Status), writeln(Status),
    halt(3).
