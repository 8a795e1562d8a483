package io.github.belfryhq.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.belfryhq.client.testing.BelfryDev;
import io.github.belfryhq.client.testing.BelfryExtension;
import jakarta.servlet.http.HttpServlet;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.testkit.engine.EngineTestKit;

/** Compiles the programs of README.md, and runs each of them. */
@ExtendWith(BelfryExtension.class)
@Timeout(60)
class ReadmeTest {
    private static final Pattern PROGRAM = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);
    private static final Pattern NAME = Pattern.compile("^(?:public )?(?:final )?class (\\w+)", Pattern.MULTILINE);

    @TempDir
    private static Path classes;

    @BeforeAll
    static void compile(@TempDir Path sources) throws IOException {
        List<String> arguments = new ArrayList<>(List.of("-Xlint:all,-serial,-processing", "-Werror", "-d", classes.toString()));
        Matcher program = PROGRAM.matcher(Files.readString(Path.of("README.md")));
        while (program.find()) {
            Matcher name = NAME.matcher(program.group(1));
            assertTrue(name.find(), program.group(1));
            arguments.add(Files.writeString(sources.resolve(name.group(1) + ".java"), program.group(1)).toString());
        }
        assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments.toArray(String[]::new)));
    }

    private static Process start(BelfryDev belfry, String program) throws IOException {
        String path = classes + java.io.File.pathSeparator + System.getProperty("java.class.path");
        ProcessBuilder builder = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-cp", path, program);
        builder.environment().putAll(Map.of("BELFRY_ADDR", belfry.url(), "BELFRY_SECRET", Signed.SECRET));
        return builder.redirectErrorStream(true).start();
    }

    /** Runs a program to its end, and returns its lines. */
    private static List<String> run(BelfryDev belfry, String program) throws IOException, InterruptedException {
        Process process = start(belfry, program);
        try (BufferedReader out = process.inputReader()) {
            List<String> lines = out.lines().toList();
            assertEquals(0, process.waitFor(), lines::toString);
            return lines;
        }
    }

    @Test
    void schedule(BelfryDev belfry) throws Exception {
        List<String> lines = run(belfry, "ScheduleOnce");
        assertTrue(lines.get(0).matches("\\d{4}-.*Z"), lines::toString);
        assertEquals(List.of("CANCELLED"), lines.subList(1, lines.size()));
        assertEquals(List.of("CANCELLED"), run(belfry, "ScheduleOnce"));
    }

    @Test
    void list(BelfryDev belfry) throws Exception {
        belfry.client().schedule(Task.in(Duration.ofHours(1)).id("listed").queue("orders").label("tenant", "acme"));
        List<String> lines = run(belfry, "ReadTasks");
        assertTrue(lines.get(0).matches("listed \\d{4}-.*Z"), lines::toString);
        assertEquals(List.of("task-not-found NO"), lines.subList(1, lines.size()));
    }

    @Test
    void batch(BelfryDev belfry) throws Exception {
        assertEquals(List.of("2500 0"), run(belfry, "ChangeMany"));
    }

    @Test
    void repeat(BelfryDev belfry) throws Exception {
        List<String> lines = run(belfry, "DailyReport");
        assertEquals(3, lines.size(), lines::toString);
        assertTrue(lines.stream().allMatch(line -> line.contains("T09:00:00")), lines::toString);
    }

    @Test
    void events(BelfryDev belfry) throws Exception {
        String shop = belfry.receiver().url();
        belfry.client().schedule(Task.in(Duration.ofMinutes(1)).id("followed").target(shop));
        belfry.advance(Duration.ofMinutes(1));
        EventFilter delivered = new EventFilter().types(TaskEvent.Type.DELIVERED).since(Duration.ofHours(1));
        try (EventStream events = belfry.client().events(delivered)) {
            assertEquals("followed", events.next().task());
        }
        List<String> lines = run(belfry, "FollowEvents");
        assertTrue(lines.get(0).startsWith("followed DELIVERED PT"), lines::toString);
    }

    @Test
    void work(BelfryDev belfry) throws Exception {
        belfry.client().schedule(Task.in(Duration.ZERO).id("mail").queue("mails").payload(Map.of("to", "a@b.example")));
        Process process = start(belfry, "SendMails");
        try (BufferedReader out = process.inputReader()) {
            String line = out.readLine();
            assertTrue(line.matches("a@b\\.example \\d+"), line);
            process.destroy(); // SIGTERM
            assertTrue(process.waitFor(20, TimeUnit.SECONDS));
        }
        assertEquals(Task.State.DELIVERED, belfry.client().get("mail").state());
    }

    @Test
    void receive(BelfryDev belfry) throws Exception {
        Process process = start(belfry, "Receive");
        try (BufferedReader out = process.inputReader()) {
            String url = out.readLine();
            assertEquals(204, Served.post(url, Signed.of("{\"order\":1042}", Map.of())).statusCode());
            assertEquals("close 1042 order-1042 7 msg_1", out.readLine());
            assertEquals(401, Served.post(url, Signed.of("{}", Map.of("webhook-signature", ""))).statusCode());
        } finally {
            process.destroy();
        }
    }

    @Test
    void receiveByServlet() throws Exception {
        try (URLClassLoader loader = new URLClassLoader(new URL[] {classes.toUri().toURL()})) {
            HttpServlet servlet = (HttpServlet)
                    loader.loadClass("CloseServlet").getDeclaredConstructor().newInstance();
            try (Served served = new Served(Receiver.builder(Signed.SECRET).build(), servlet)) {
                assertEquals(204, served.post(Signed.of("{\"order\":7}", Map.of())).statusCode());
            }
        }
    }

    @Test
    void test() throws Exception {
        try (URLClassLoader loader = new URLClassLoader(new URL[] {classes.toUri().toURL()})) {
            EngineTestKit.engine("junit-jupiter")
                    .selectors(DiscoverySelectors.selectClass(loader.loadClass("OrderTest")))
                    .execute()
                    .testEvents()
                    .assertStatistics(events -> events.started(1).succeeded(1));
        }
    }
}
