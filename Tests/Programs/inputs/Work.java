import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.*;
import java.util.zip.*;

/** Threads, garbage collection under pressure, direct buffers, null checks through SIGSEGV, deep recursion, zlib. */
public class Work {
    record Item(int id, String name, List<Integer> values) {}

    static int depth(int n) { return depth(n + 1) + 1; }

    static String digest(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes)).substring(0, 16);
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> results = new ArrayList<>();
        for (int task = 0; task < 16; task++) {
            int seed = task;
            results.add(pool.submit(() -> {
                Random random = new Random(seed);
                Map<String, Item> map = new HashMap<>();
                long sum = 0;
                for (int i = 0; i < 60_000; i++) {
                    String key = "k" + random.nextInt(5000);
                    map.put(key, new Item(i, key + i, IntStream.range(0, i % 20).boxed().toList()));
                    if (i % 3 == 0) map.remove("k" + random.nextInt(5000));
                }
                for (Item item : map.values()) sum += item.id() + item.name().length() + item.values().size();
                return sum;
            }));
        }
        long total = 0;
        for (Future<Long> result : results) total += result.get();
        pool.shutdown();
        System.out.println("threads " + total);

        // Implicit null checks: the virtual machine gets a SIGSEGV and turns it into an exception.
        int caught = 0;
        String[] maybe = new String[1000];
        for (int i = 0; i < 200_000; i++) {
            maybe[i % 1000] = i % 50 == 0 ? null : "x";
            try { caught += maybe[i % 1000].length() - 1; } catch (NullPointerException error) { caught++; }
        }
        System.out.println("null " + caught);
        int overflows = 0;
        for (int i = 0; i < 3; i++) try { depth(0); } catch (StackOverflowError error) { overflows++; }
        System.out.println("overflow " + overflows);

        List<byte[]> kept = new LinkedList<>();
        for (int i = 0; i < 4000; i++) {
            kept.add(new byte[40_000]);
            if (kept.size() > 300) kept.remove(0);
        }
        System.out.println("garbage " + kept.size());
        long direct = 0;
        for (int i = 0; i < 2000; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(1024 + i * 16);
            buffer.putLong(0, i);
            direct += buffer.getLong(0) + buffer.capacity();
        }
        System.out.println("direct " + direct);

        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 100_000; i++) text.append(i * 31 % 977).append(i % 10 == 0 ? '\n' : ' ');
        byte[] raw = text.toString().getBytes(StandardCharsets.UTF_8);
        int unpacked = 0;
        for (int i = 0; i < 20; i++) {
            Deflater deflater = new Deflater(1 + i % 9);
            deflater.setInput(raw);
            deflater.finish();
            byte[] packed = new byte[raw.length];
            int size = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, size);
            unpacked += inflater.inflate(new byte[raw.length]);
            inflater.end();
        }
        System.out.println("zlib " + unpacked + " " + digest(raw));
        System.out.println("streams " + Arrays.stream(text.toString().split("\\s+")).parallel()
            .collect(Collectors.groupingByConcurrent(String::length, ConcurrentSkipListMap::new, Collectors.counting())));
        LongAdder adder = new LongAdder();
        for (int round = 0; round < 50; round++) {
            Thread[] many = new Thread[10];
            for (int i = 0; i < many.length; i++) (many[i] = new Thread(adder::increment)).start();
            for (Thread thread : many) thread.join();
        }
        System.out.println("short-lived " + adder.sum());
        Process process = new ProcessBuilder("/bin/sh", "-c", "echo from a shell; exit 3").start();
        System.out.println(new String(process.getInputStream().readAllBytes()).trim() + " " + process.waitFor());
        System.gc();
        System.exit(7);
    }
}
