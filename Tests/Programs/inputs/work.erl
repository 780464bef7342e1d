-module(work).
-export([main/0]).
%% Processes, messages, tables, ports; the heaps of processes come and go.
main() ->
    Self = self(),
    Pids = [spawn(fun() -> Self ! {N, lists:sum([X * X rem 97 || X <- lists:seq(1, 2000 + N)])} end) || N <- lists:seq(1, 500)],
    Sums = [receive {N, Sum} -> Sum end || {N, _} <- lists:zip(lists:seq(1, 500), Pids)],
    io:format("~p ~p~n", [lists:sum(Sums), erlang:phash2(Sums)]),
    Table = ets:new(table, [public, ordered_set]),
    [ets:insert(Table, {K * 7919 rem 50021, binary:copy(<<"x">>, K rem 300)}) || K <- lists:seq(1, 50000)],
    [ets:delete(Table, K) || K <- lists:seq(1, 50021, 3)],
    io:format("~p ~p~n", [ets:info(Table, size), erlang:phash2(ets:tab2list(Table))]),
    Ring = lists:foldl(fun(_, Next) -> spawn(fun() -> pass(Next) end) end, Self, lists:seq(1, 2000)),
    Ring ! {token, 0},
    receive {token, Count} -> io:format("ring ~p~n", [Count]) end,
    io:format("~p~n", [erlang:phash2(zlib:uncompress(zlib:compress(binary:copy(<<"some text ">>, 100000))))]),
    io:format("~p~n", [re:replace("a1b22c333", "([a-z])([0-9]+)", "\\2\\1", [global, {return, list}])]),
    io:format("~p~n", [catch 1 / (length(Pids) - 500)]),
    io:format("~ts", [os:cmd("echo from a port")]),
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listen),
    spawn(fun() -> {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary]), ok = gen_tcp:send(S, binary:copy(<<"y">>, 300000)), gen_tcp:close(S) end),
    {ok, Socket} = gen_tcp:accept(Listen),
    {ok, Data} = gen_tcp:recv(Socket, 300000),
    io:format("~p~n", [byte_size(Data)]),
    halt(8).
pass(Next) -> receive {token, N} -> Next ! {token, N + 1} end.
