package io.github.belfryhq.spring;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.belfryhq.client.Belfry;
import io.github.belfryhq.client.Delivery;
import io.github.belfryhq.client.Fences;
import io.github.belfryhq.client.QueuePolicy;
import io.github.belfryhq.client.Task;
import io.github.belfryhq.client.testing.BelfryDev;
import io.github.belfryhq.client.testing.BelfryExtension;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;

class DeliveryTest {
    private static final String KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    private static final String SECRETS = "belfry.receiver.secrets=whsec_b2xkLXNlY3JldC1vbGQtc2VjcmV0,whsec_" + KEY;

    private final HttpClient http = HttpClient.newHttpClient();
    private ServletWebServerApplicationContext application;

    record Close(int order) {}

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import({Orders.class, Careless.class})
    static class App {}

    @RestController
    static class Orders {
        final BlockingQueue<String> handled = new LinkedBlockingQueue<>();

        @PostMapping("/close")
        void close(Delivery delivery) {
            Close close = delivery.payload().as(Close.class);
            if (close.order() == 0) {
                throw new ResponseStatusException(HttpStatus.GONE, "there is no such order");
            }
            handled.add(close + " of " + delivery.task() + ", attempt " + delivery.attempt());
        }
    }

    @RestController
    static class Careless {
        int calls;

        @PostMapping("/count")
        void count(Delivery delivery) {
            calls++;
        }
    }

    private Orders start(String... properties) {
        application = (ServletWebServerApplicationContext) new SpringApplicationBuilder(App.class)
                .properties("server.port=0", "spring.main.banner-mode=off")
                .properties(properties)
                .run();
        return application.getBean(Orders.class);
    }

    @AfterEach
    void close() {
        application.close();
    }

    private URI url(String path) {
        return URI.create("http://127.0.0.1:" + application.getWebServer().getPort() + path);
    }

    /** Returns the status that answers a delivery with this fence, sent at this second. */
    private int send(String key, long second, int fence, String body)
            throws IOException, InterruptedException, GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(key), "HmacSHA256"));
        byte[] signature = mac.doFinal(("msg_1." + second + "." + body).getBytes(UTF_8));
        HttpRequest request = HttpRequest.newBuilder(url("/close"))
                .header("content-type", "application/json")
                .header("webhook-id", "msg_1")
                .header("webhook-timestamp", Long.toString(second))
                .header("webhook-signature", "v1," + Base64.getEncoder().encodeToString(signature))
                .header("ce-id", "msg_1")
                .header("ce-subject", "order-7")
                .header("ce-source", "/v1/queues/orders")
                .header("ce-time", "2026-12-01T09:00:00.000Z")
                .header("belfry-attempt", "1")
                .header("belfry-fence", Integer.toString(fence))
                .POST(BodyPublishers.ofString(body))
                .build();
        return http.send(request, BodyHandlers.ofString()).statusCode();
    }

    private static long now() {
        return Instant.now().getEpochSecond();
    }

    @Test
    @ExtendWith(BelfryExtension.class)
    void webhooksReachTheController(BelfryDev dev) throws InterruptedException {
        Orders orders = start(SECRETS);
        Belfry belfry = dev.client();
        belfry.queues().put("orders", new QueuePolicy().secrets("whsec_" + KEY));
        belfry.schedule(Task.in(Duration.ofSeconds(1)).id("order-7").queue("orders").target(url("/close").toString())
                .payload(new Close(7)));
        belfry.schedule(Task.in(Duration.ofSeconds(1)).id("order-0").queue("orders").target(url("/close").toString())
                .payload(new Close(0)));
        dev.advance(Duration.ofSeconds(1));
        assertThat(orders.handled.poll(10, TimeUnit.SECONDS)).isEqualTo("Close[order=7] of order-7, attempt 1");
        await().until(() -> belfry.get("order-7").state() == Task.State.DELIVERED);
        await().until(() -> belfry.get("order-0").state() == Task.State.DEAD); // 410 ends the retries
        assertThat(belfry.get("order-0").attempts()).isEqualTo(1);
    }

    @Test
    void requestsAreVerified() throws Exception {
        Orders orders = start(SECRETS, "belfry.receiver.max-body=1KB");
        String body = "{\"order\": 7}";
        assertThat(send(KEY, now(), 7, body)).isEqualTo(200);
        assertThat(orders.handled).hasSize(1);
        orders.handled.clear();

        assertThat(send(KEY, now(), 6, body)).as("a stale fence").isEqualTo(409);
        assertThat(send("d3Jvbmcgc2VjcmV0", now(), 8, body)).as("another secret").isEqualTo(401);
        assertThat(send(KEY, now() - 600, 8, body)).as("ten minutes ago").isEqualTo(401);
        assertThat(send(KEY, now(), 8, "[" + " ".repeat(1024) + "]")).as("a large body").isEqualTo(413);
        assertThat(send(KEY, now(), 8, "{")).as("no JSON").isEqualTo(400);
        HttpRequest bare = HttpRequest.newBuilder(url("/close")).POST(BodyPublishers.ofString(body)).build();
        assertThat(http.send(bare, BodyHandlers.ofString()).statusCode()).as("no delivery").isEqualTo(400);
        assertThat(orders.handled).isEmpty();
    }

    @Test
    void withoutSecretsNoRequestPasses() throws Exception {
        start();
        HttpRequest request = HttpRequest.newBuilder(url("/count")).POST(BodyPublishers.noBody()).build();
        assertThat(http.send(request, BodyHandlers.ofString()).statusCode()).isEqualTo(500);
        assertThat(application.getBean(Careless.class).calls).isZero();
    }

    @Configuration(proxyBeanMethods = false)
    static class BrokenFences {
        @Bean
        Fences fences() {
            return (task, fence) -> {
                throw new IllegalStateException("the database is away");
            };
        }
    }

    @Test
    void ownFencesAreAsked() throws Exception {
        start(SECRETS, "spring.main.sources=" + BrokenFences.class.getName());
        assertThat(send(KEY, now(), 7, "{\"order\": 7}")).isEqualTo(503);
    }
}
