package io.github.belfryhq.spring;

import io.github.belfryhq.client.Delivery;
import io.github.belfryhq.client.Receiver;
import io.github.belfryhq.client.VerificationException;
import jakarta.servlet.http.HttpServletRequest;
import java.io.IOException;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.core.MethodParameter;
import org.springframework.http.HttpStatus;
import org.springframework.http.HttpStatusCode;
import org.springframework.web.bind.support.WebDataBinderFactory;
import org.springframework.web.context.request.NativeWebRequest;
import org.springframework.web.method.support.HandlerMethodArgumentResolver;
import org.springframework.web.method.support.ModelAndViewContainer;
import org.springframework.web.server.ResponseStatusException;

/** Gives controllers the verified delivery. A request that cannot be verified never reaches the method. */
final class DeliveryResolver implements HandlerMethodArgumentResolver {
    private final ObjectProvider<Receiver> receivers;

    DeliveryResolver(ObjectProvider<Receiver> receivers) {
        this.receivers = receivers;
    }

    @Override
    public boolean supportsParameter(MethodParameter parameter) {
        return parameter.getParameterType() == Delivery.class;
    }

    @Override
    public Delivery resolveArgument(
            MethodParameter parameter,
            ModelAndViewContainer container,
            NativeWebRequest web,
            WebDataBinderFactory binders)
            throws IOException {
        Receiver receiver = receivers.getIfAvailable(() -> {
            throw new IllegalStateException("belfry.receiver.secrets has no secret: deliveries cannot be verified");
        });
        HttpServletRequest request = web.getNativeRequest(HttpServletRequest.class);
        try {
            return receiver.verify(request::getHeader, receiver.bodyOf(request.getInputStream()));
        } catch (VerificationException err) {
            throw new ResponseStatusException(HttpStatusCode.valueOf(err.status()), err.getMessage(), err);
        } catch (RuntimeException err) {
            throw new ResponseStatusException(HttpStatus.SERVICE_UNAVAILABLE, "the fence cannot be checked now", err);
        }
    }
}
