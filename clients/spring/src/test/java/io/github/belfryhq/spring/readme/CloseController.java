package io.github.belfryhq.spring.readme;

import io.github.belfryhq.client.Delivery;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;

@RestController
class CloseController {
    private final Shop shop;

    CloseController(Shop shop) {
        this.shop = shop;
    }

    @PostMapping("/close")
    void close(Delivery delivery) {
        Close close = delivery.payload().as(Close.class);
        shop.close(close.order(), delivery.webhookId());
    }
}
