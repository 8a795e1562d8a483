package io.github.belfryhq.spring;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpServer;
import io.github.belfryhq.client.Belfry;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

class BelfryAutoConfigurationTest {
    private final ApplicationContextRunner context = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(BelfryAutoConfiguration.class));
    private final BlockingQueue<String> requests = new LinkedBlockingQueue<>();
    private HttpServer server;
    private String address;

    /** Starts a node that notes the key and the path of each request. */
    @BeforeEach
    void start() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            String key = exchange.getRequestHeaders().getFirst("Authorization");
            requests.add(key + " " + exchange.getRequestURI());
            byte[] answer = "{}".getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().add("content-type", "application/json");
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
        address = "belfry.addresses=http://127.0.0.1:" + server.getAddress().getPort();
    }

    @AfterEach
    void stop() {
        server.stop(0);
    }

    @Test
    void propertiesReachTheClient() {
        context.withPropertyValues(address, "belfry.key=bfy_a", "belfry.namespace=billing").run(it -> {
            it.getBean(Belfry.class).queues().get("orders");
            assertThat(requests.take()).isEqualTo("Bearer bfy_a /v1/namespaces/billing/queues/orders");
        });
    }

    @Test
    void aNewKeyInTheFileNeedsNoRestart(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("key"), "bfy_a\n");
        context.withPropertyValues(address, "belfry.key-file=" + file).run(it -> {
            it.getBean(Belfry.class).queues().get("orders");
            Files.writeString(file, "bfy_b\n");
            it.getBean(Belfry.class).queues().get("orders");
            assertThat(requests.take()).startsWith("Bearer bfy_a ");
            assertThat(requests.take()).startsWith("Bearer bfy_b ");
        });
    }

    @Test
    void customizersComeAfterTheProperties() {
        BelfryCustomizer customizer = builder -> builder.key("bfy_b");
        context.withBean(BelfryCustomizer.class, () -> customizer)
                .withPropertyValues(address, "belfry.key=bfy_a")
                .run(it -> {
                    it.getBean(Belfry.class).queues().get("orders");
                    assertThat(requests.take()).startsWith("Bearer bfy_b ");
                });
    }

    @Test
    void anOwnClientTakesTheirPlace() {
        Belfry own = Belfry.builder().addresses("http://127.0.0.1:1").build();
        context.withBean(Belfry.class, () -> own).run(it -> assertThat(it.getBean(Belfry.class)).isSameAs(own));
    }

    @Test
    void textsShowNoSecrets() {
        context.withPropertyValues("belfry.key=bfy_hidden", "belfry.receiver.secrets=whsec_aGlkZGVu").run(it -> {
            BelfryProperties properties = it.getBean(BelfryProperties.class);
            assertThat(properties + " " + properties.receiver()).doesNotContain("hidden", "aGlkZGVu");
        });
    }

    @Test
    void eachPropertyIsDescribed() throws IOException {
        try (InputStream metadata = getClass().getResourceAsStream("/META-INF/spring-configuration-metadata.json")) {
            JsonNode properties = new ObjectMapper().readTree(metadata).get("properties");
            assertThat(properties).hasSize(15).allSatisfy(property ->
                    assertThat(property.path("description").asText()).as(property.get("name").asText()).isNotBlank());
        }
    }
}
