package io.github.belfryhq.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.belfryhq.client.Delivery.DeliveredTask;
import io.github.belfryhq.client.VerificationException.Reason;
import java.math.BigInteger;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ReceiverTest {
    private static Receiver.Builder receiver() {
        return Receiver.builder(Signed.SECRET);
    }

    private static Delivery verify(Receiver.Builder receiver, String payload, Map<String, String> changes) {
        Signed request = Signed.of(payload, changes);
        return receiver.build().verify(request.headers()::get, request.body());
    }

    private static Reason refusal(Receiver.Builder receiver, Map<String, String> changes) {
        return assertThrows(VerificationException.class, () -> verify(receiver, "{}", changes)).reason();
    }

    private record Order(int order) {}

    @Test
    void aDeliveryHasItsFields() {
        Delivery delivery = verify(receiver(), "{\"order\":1}",
                Map.of("ce-subject", "a%20b+c", "belfry-fence", "9007199254740993"));
        assertEquals("a b+c", delivery.task());
        assertEquals("msg_1", delivery.webhookId());
        assertEquals(1, delivery.attempt());
        assertEquals(new BigInteger("9007199254740993"), delivery.fence());
        assertEquals(new Order(1), delivery.payload().as(Order.class));
        assertEquals("/v1/queues/q", delivery.tasks().get(0).source());
    }

    @Test
    void aBodyThatIsNotJsonStaysBytes() {
        assertNull(verify(receiver(), "x", Map.of("content-type", "text/plain")).payload());
    }

    @Test
    void requestsAreRefusedByTheirReasons() {
        assertEquals(Reason.MALFORMED, refusal(receiver(), Map.of("belfry-fence", "x")));
        assertEquals(Reason.MALFORMED, refusal(receiver(), Map.of("ce-subject", "%")));
        assertEquals(Reason.MALFORMED, refusal(receiver(), Map.of("ce-time", "soon")));
        assertEquals(Reason.SIGNATURE, refusal(receiver(), Map.of("webhook-signature", "v1,x")));
        Clock later = Clock.offset(Clock.systemUTC(), Duration.ofSeconds(400));
        assertEquals(Reason.TIMESTAMP, refusal(receiver().clock(later), Map.of()));
        assertEquals(Reason.STALE, refusal(receiver().fences((task, fence) -> false), Map.of()));
        assertEquals(Reason.TOO_LARGE, refusal(receiver().maxBody(1), Map.of()));
        assertEquals(List.of(400, 401, 401, 409, 413),
                List.of(Reason.values()).stream().map(reason -> new VerificationException(reason, "").status()).toList());
    }

    @Test
    void aBatchMarksItsStaleTasks() {
        String event = "{\"id\":\"msg_%1$s\",\"subject\":\"%1$s\",\"source\":\"/v1/queues/q\",\"time\":\"2026-01-02T03:04:05Z\","
                + "\"belfryattempt\":1,\"belfryfence\":\"%2$s\",\"data\":{\"snake_case\":1}}";
        Fences fences = Fences.inMemory(10);
        fences.raise("a", BigInteger.valueOf(6));
        String batch = "[" + event.formatted("a", "5") + "," + event.formatted("b", "9007199254740993") + "]";
        List<DeliveredTask> tasks = verify(receiver().fences(fences), batch,
                        Map.of("content-type", "application/cloudevents-batch+json"))
                .tasks();
        assertEquals(List.of("a", "b"), tasks.stream().map(DeliveredTask::task).toList());
        assertEquals(List.of(true, false), tasks.stream().map(DeliveredTask::stale).toList());
        assertEquals("{\"snake_case\":1}", tasks.get(1).payload().toString());
    }

    @Test
    void fencesForgetTheTasksSeenLongestAgo() {
        Fences fences = Fences.inMemory(2);
        assertTrue(fences.raise("a", BigInteger.TWO));
        assertFalse(fences.raise("a", BigInteger.ONE));
        assertTrue(fences.raise("a", BigInteger.TWO));
        fences.raise("b", BigInteger.ONE);
        fences.raise("c", BigInteger.ONE);
        assertTrue(fences.raise("a", BigInteger.ONE));
    }

    @Test
    void wrongSecretsAreRefusedAndNotShown() {
        for (String[] secrets : new String[][] {{}, {"abc"}, {"whsec_"}, {"whsec_ä"}}) {
            Throwable err = assertThrows(IllegalArgumentException.class, () -> Receiver.builder(secrets));
            assertFalse(err.getMessage().contains("abc"), err.getMessage());
            assertNull(err.getCause());
        }
    }
}
