package io.github.belfryhq.spring.readme;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.belfryhq.client.Belfry;
import io.github.belfryhq.client.QueuePolicy;
import io.github.belfryhq.client.Task;
import io.github.belfryhq.client.testing.BelfryDev;
import io.github.belfryhq.spring.BelfryProperties;
import io.github.belfryhq.spring.test.AutoConfigureBelfryDev;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.context.properties.bind.BindHandler;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.bind.handler.NoUnboundElementsBindHandler;
import org.springframework.boot.context.properties.source.ConfigurationPropertySources;
import org.springframework.boot.env.YamlPropertySourceLoader;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.core.io.ByteArrayResource;

/** Holds README.md and the classes of this package together, and runs them. */
@SpringBootTest(
        webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT,
        properties = "belfry.receiver.secrets=" + ReadmeTest.SECRET)
@AutoConfigureBelfryDev
class ReadmeTest {
    static final String SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

    @Autowired
    Belfry belfry;

    @Autowired
    BelfryDev dev;

    @Autowired
    Shop shop;

    @LocalServerPort
    int port;

    private static List<String> blocks(String language) throws IOException {
        return Pattern.compile("(?ms)^```" + language + "\n(.*?)^```$")
                .matcher(Files.readString(Path.of("README.md")))
                .results()
                .map(found -> found.group(1))
                .toList();
    }

    @Test
    void eachSnippetIsPartOfAClassHere() throws IOException {
        List<String> classes = new ArrayList<>();
        try (var files = Files.newDirectoryStream(Path.of("src/test/java/io/github/belfryhq/spring/readme"))) {
            for (Path file : files) {
                classes.add(Files.readString(file));
            }
        }
        assertThat(blocks("java")).hasSize(5).allSatisfy(block ->
                assertThat(classes).anySatisfy(text -> assertThat(text).contains(block.strip())));
    }

    @Test
    void theSettingsBind() throws IOException {
        var sources = new YamlPropertySourceLoader()
                .load("README.md", new ByteArrayResource(blocks("yaml").get(0).getBytes(UTF_8)));
        BelfryProperties properties = new Binder(ConfigurationPropertySources.from(sources))
                .bind(
                        "belfry",
                        Bindable.of(BelfryProperties.class),
                        new NoUnboundElementsBindHandler(BindHandler.DEFAULT))
                .get();
        assertThat(properties.addresses()).hasSize(2);
    }

    @Test
    void theReportRunsOnWorkingDays() throws InterruptedException {
        dev.advance(Duration.ofDays(3)); // holds a working day
        assertThat(shop.reports.poll(10, TimeUnit.SECONDS)).isEqualTo("morning-report@1");
    }

    @Test
    void theControllerGetsWebhooks() throws InterruptedException {
        belfry.queues().put("hooks", new QueuePolicy().secrets(SECRET));
        belfry.schedule(Task.in(Duration.ofHours(48)).queue("hooks").target("http://127.0.0.1:" + port + "/close")
                .payload(new Close(3)));
        dev.advance(Duration.ofHours(48));
        assertThat(shop.closed.poll(10, TimeUnit.SECONDS)).isEqualTo(3);
    }
}
