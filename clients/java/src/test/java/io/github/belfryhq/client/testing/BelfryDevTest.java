package io.github.belfryhq.client.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.belfryhq.client.ProblemException;
import io.github.belfryhq.client.Retry;
import io.github.belfryhq.client.Task;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@ExtendWith(BelfryExtension.class)
class BelfryDevTest {
    @Test
    void aFailedAttemptIsRepeated(BelfryDev belfry) {
        TestReceiver shop = belfry.receiver(delivery -> delivery.attempt() == 1 ? 500 : 204);
        Task task = belfry.client().schedule(Task.in(Duration.ofHours(1))
                .id("order-1")
                .payload(Map.of("order", 1))
                .target(shop.url())
                .retry(Retry.delays(Duration.ofMinutes(5))));
        assertTrue(belfry.advance(Duration.ofHours(1)) >= 1);
        assertEquals(1, shop.next().attempt());
        belfry.advance(Duration.ofMinutes(5));
        Received second = shop.next();
        assertEquals(2, second.attempt());
        assertEquals("order-1", second.task());
        assertEquals(1, second.json().get("order").asLong());
        assertEquals(task.fireAt(), second.due());
        assertEquals(2, shop.all().size());
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void eachTestHasANodeOfItsOwn(int turn, BelfryDev belfry) {
        assertThrows(ProblemException.NotFound.class, () -> belfry.client().get("t"));
        belfry.client().schedule(Task.in(Duration.ofHours(1)).id("t"));
    }

    @Test
    void aProgramThatIsNoNodeIsNamed() {
        for (String binary : new String[] {"/bin/false", "/no/such/program"}) {
            String message = assertThrows(IllegalStateException.class, () -> BelfryDev.start(binary)).getMessage();
            assertTrue(message.contains(binary), message);
        }
    }
}
