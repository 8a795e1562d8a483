package io.github.belfryhq.spring.readme;

import io.github.belfryhq.client.Belfry;
import io.github.belfryhq.client.Task;
import java.time.Duration;
import org.springframework.stereotype.Service;

@Service
class Orders {
    private final Belfry belfry;

    Orders(Belfry belfry) {
        this.belfry = belfry;
    }

    void placed(int order) {
        belfry.schedule(Task.in(Duration.ofHours(48)).id("order-" + order + "-close").queue("closings")
                .payload(new Close(order)));
    }

    Task.Outcome paid(int order) {
        return belfry.cancel("order-" + order + "-close"); // CANCELLED, STOPPED or ALREADY_FIRED
    }
}
