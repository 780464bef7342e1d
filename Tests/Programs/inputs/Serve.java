// An HTTP server with a pool of threads; its answers are deterministic, and it produces much garbage. Ends when /stop is requested.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.GZIPOutputStream;

public class Serve {
    static final AtomicInteger inside = new AtomicInteger();

    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 128);
        var pool = Executors.newFixedThreadPool(8);
        server.setExecutor(pool);
        server.createContext("/", Serve::answer);
        server.createContext("/stop", exchange -> {
            send(exchange, "stopping\n".getBytes(), "text/plain");
            new Thread(() -> { server.stop(0); pool.shutdown(); System.out.println("stopped, busy: " + inside.get()); System.exit(9); }).start();
        });
        server.start();
    }

    static void answer(HttpExchange exchange) throws IOException {
        inside.incrementAndGet();
        try {
            byte[] body = exchange.getRequestBody().readAllBytes();
            int number = exchange.getRequestURI().getQuery() == null ? 0 : Integer.parseInt(exchange.getRequestURI().getQuery());
            switch (exchange.getRequestURI().getPath()) {
            case "/hash" -> {
                try {
                    send(exchange, HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body)).getBytes(), "text/plain");
                } catch (java.security.GeneralSecurityException error) { throw new IOException(error); }
            }
            case "/direct" -> {
                long sum = 0;
                for (int i = 0; i < number; i++) {
                    ByteBuffer buffer = ByteBuffer.allocateDirect(1 + i % 5000);
                    buffer.put(0, (byte) i);
                    sum += buffer.get(0) + buffer.capacity();
                }
                send(exchange, (sum + "\n").getBytes(), "text/plain");
            }
            case "/null" -> {
                int caught = 0;
                String[] some = new String[3];
                for (int i = 0; i < number; i++) try { caught += some[i % 3].length(); } catch (NullPointerException error) { caught++; }
                send(exchange, (caught + "\n").getBytes(), "text/plain");
            }
            default -> {
                var bytes = new ByteArrayOutputStream();
                try (var gzip = new GZIPOutputStream(bytes)) {
                    for (int i = 0; i < number; i++) gzip.write(("line " + i * 7919 % 10007 + "\n").getBytes());
                }
                exchange.getResponseHeaders().set("Content-Encoding", "gzip");
                send(exchange, bytes.toByteArray(), "text/plain");
            }
            }
        } finally {
            inside.decrementAndGet();
        }
    }

    static void send(HttpExchange exchange, byte[] bytes, String type) throws IOException {
        exchange.getResponseHeaders().set("Content-Type", type);
        exchange.sendResponseHeaders(200, bytes.length);
        try (var out = exchange.getResponseBody()) { out.write(bytes); }
    }
}
