package io.github.belfryhq.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.github.belfryhq.client.servlet.BelfryServletFilter;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ServletTest {
    /** Answers the task's id and the body. */
    private static final class Echo extends HttpServlet {
        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            Delivery delivery = BelfryServletFilter.delivery(request);
            response.getWriter().write(delivery.task() + " " + request.getReader().readLine());
        }
    }

    private static HttpResponse<String> post(Receiver receiver, Map<String, String> changes) throws Exception {
        try (Served served = new Served(receiver, new Echo())) {
            return served.post(Signed.of("{\"order\":7}", changes));
        }
    }

    @Test
    void aDeliveryReachesTheServletWithItsBody() throws Exception {
        assertEquals("order-1042 {\"order\":7}", post(Receiver.builder(Signed.SECRET).build(), Map.of()).body());
    }

    @Test
    void otherRequestsDoNot() throws Exception {
        Receiver receiver = Receiver.builder(Signed.SECRET).build();
        assertEquals(401, post(receiver, Map.of("webhook-signature", "v1,x")).statusCode());
        assertEquals(413, post(Receiver.builder(Signed.SECRET).maxBody(5).build(), Map.of()).statusCode());
        Receiver stale = Receiver.builder(Signed.SECRET).fences((task, fence) -> false).build();
        assertEquals(409, post(stale, Map.of()).statusCode());
    }

    @Test
    void aFailureOfFencesIsNotShown() throws Exception {
        Receiver broken = Receiver.builder(Signed.SECRET)
                .fences((task, fence) -> {
                    throw new IllegalStateException("the database's password");
                })
                .build();
        HttpResponse<String> answer = post(broken, Map.of());
        assertEquals(503, answer.statusCode());
        assertFalse(answer.body().contains("password"), answer.body());
    }
}
