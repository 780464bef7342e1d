-- The output is the same on every run: no times, no addresses, rows in a fixed order.
\set ON_ERROR_STOP 0
SET client_min_messages = warning;
CREATE TABLE shelf (id int PRIMARY KEY, name text NOT NULL, price numeric(10,2), tags text[], data jsonb);
INSERT INTO shelf SELECT i, 'item ' || md5(i::text), (i * 7919 % 100003) / 7.0, ARRAY['t' || i % 7, 'u' || i % 11],
    jsonb_build_object('n', i, 'square', i::bigint * i, 'deep', jsonb_build_array(i % 3, i % 5)) FROM generate_series(1, 20000) i;
CREATE INDEX shelf_name ON shelf (name);
CREATE INDEX shelf_tags ON shelf USING gin (tags);
CREATE INDEX shelf_data ON shelf USING gin (data jsonb_path_ops);
CREATE INDEX shelf_hash ON shelf USING hash (name);
ANALYZE shelf;
SELECT count(*), sum(price), min(name), max(name) FROM shelf;
SELECT tags[1], count(*), round(avg(price), 4), string_agg(id::text, ',' ORDER BY id) FILTER (WHERE id < 60) FROM shelf GROUP BY 1 ORDER BY 1;
SELECT id, name FROM shelf WHERE data @> '{"deep": [2, 4]}' ORDER BY name LIMIT 5;
SELECT id FROM shelf WHERE tags @> ARRAY['t3', 'u5'] ORDER BY id LIMIT 8;
SELECT id, price, rank() OVER (PARTITION BY tags[1] ORDER BY price DESC), lag(price, 2) OVER (ORDER BY id) FROM shelf WHERE id % 2500 = 0 ORDER BY id;
WITH RECURSIVE walk(n, text) AS (SELECT 1, 'a' UNION ALL SELECT n + 1, text || chr(97 + n % 26) FROM walk WHERE n < 300)
    SELECT max(n), md5(string_agg(text, '|' ORDER BY n)) FROM walk;
CREATE FUNCTION collatz(start bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n bigint := start; steps int := 0;
BEGIN
    IF start < 1 THEN RAISE EXCEPTION 'no collatz of %', start USING ERRCODE = '22023'; END IF;
    WHILE n <> 1 LOOP
        n := CASE WHEN n % 2 = 0 THEN n / 2 ELSE 3 * n + 1 END;
        steps := steps + 1;
    END LOOP;
    RETURN steps;
END $$;
SELECT max(collatz(i)), sum(collatz(i)) FROM generate_series(1, 600) i;
SELECT collatz(0);
CREATE FUNCTION careful(t text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (1000 / t::int)::text;
EXCEPTION WHEN division_by_zero THEN RETURN 'zero'; WHEN invalid_text_representation THEN RETURN 'no number: ' || SQLERRM;
END $$;
SELECT careful(v) FROM unnest(ARRAY['5', '0', 'x', '999999999999']) v;
SELECT careful(v) FROM unnest(ARRAY['5', '0', 'x', '7']) v;
CREATE TABLE log (at serial, what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (what) VALUES (TG_OP || ' ' || NEW.id); RETURN NEW; END $$;
CREATE TRIGGER noted AFTER UPDATE ON shelf FOR EACH ROW WHEN (NEW.id % 1000 = 0) EXECUTE FUNCTION note();
BEGIN;
UPDATE shelf SET price = price + 1 WHERE id % 10 = 0;
SAVEPOINT one;
DELETE FROM shelf WHERE id % 3 = 0;
SELECT count(*) FROM shelf;
ROLLBACK TO one;
COMMIT;
SELECT count(*), sum(price) FROM shelf;
SELECT what FROM log ORDER BY at LIMIT 4;
-- Parallel workers share memory in their own segments; the sort goes to disk.
SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SET force_parallel_mode = on; SET work_mem = '64kB';
SELECT count(*), sum(a.id::bigint * b.id) FROM shelf a JOIN shelf b ON a.name = b.name WHERE a.price > 3000;
SELECT md5(string_agg(name, ',' ORDER BY price, name)) FROM shelf;
RESET force_parallel_mode; SET max_parallel_workers_per_gather = 0;
-- Compiled queries (JIT).
SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0;
SELECT count(*), sum(price * 2 + id) FROM shelf WHERE price > 100 AND length(name) > 10 AND id % 3 = 1;
SET jit = off;
SELECT to_tsvector('english', 'The quick brown foxes jumped over the lazy dogs'), regexp_replace('a1b22c333', '([a-z])(\d+)', '\2\1', 'g');
SELECT xmlelement(name a, xmlattributes(1 AS b), 'text'), xpath('//c/text()', '<r><c>1</c><c>2</c></r>');
SELECT 2::numeric ^ 200, sqrt(2::numeric(40,30)), '2024-02-29'::date + interval '1 year', age('2024-03-01', '2020-02-29'), to_char(-1234.5, 'S9G999D00');
PREPARE pick(int) AS SELECT name FROM shelf WHERE id = $1;
EXECUTE pick(17); EXECUTE pick(18); DEALLOCATE pick;
BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM shelf ORDER BY name; FETCH 3 FROM c; MOVE 100 IN c; FETCH BACKWARD 2 FROM c; CLOSE c; COMMIT;
COPY (SELECT id, name FROM shelf ORDER BY id LIMIT 5) TO STDOUT WITH (FORMAT csv, HEADER);
SELECT * FROM no_such_table;
SELECT 1/0;
VACUUM FULL shelf; REINDEX TABLE shelf; CLUSTER shelf USING shelf_pkey;
SELECT md5(string_agg(s::text, ';' ORDER BY id)) FROM shelf s;
