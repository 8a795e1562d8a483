package io.github.belfryhq.client.servlet;

import io.github.belfryhq.client.Delivery;
import io.github.belfryhq.client.Receiver;
import io.github.belfryhq.client.VerificationException;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ReadListener;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletInputStream;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.http.HttpFilter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpServletResponse;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * Verifies deliveries before a servlet, which gets them by {@link #delivery}. It answers other requests by their status. The
 * servlet can read the body again.
 */
public final class BelfryServletFilter extends HttpFilter {
    private static final System.Logger LOGGER = System.getLogger(BelfryServletFilter.class.getName());
    private static final String ATTRIBUTE = Delivery.class.getName();

    private final transient Receiver receiver;

    public BelfryServletFilter(Receiver receiver) {
        this.receiver = receiver;
    }

    /** Returns the delivery of a request that a filter has verified, or null. */
    public static Delivery delivery(ServletRequest request) {
        return (Delivery) request.getAttribute(ATTRIBUTE);
    }

    @Override
    protected void doFilter(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        Delivery delivery;
        try {
            delivery = receiver.verify(request::getHeader, receiver.bodyOf(request.getInputStream()));
        } catch (VerificationException err) {
            refuse(response, err.status(), err.getMessage());
            return;
        } catch (RuntimeException err) {
            LOGGER.log(System.Logger.Level.WARNING, "the fence of a delivery cannot be checked", err);
            refuse(response, HttpServletResponse.SC_SERVICE_UNAVAILABLE, "the fence cannot be checked now");
            return;
        }
        request.setAttribute(ATTRIBUTE, delivery);
        chain.doFilter(new ReadRequest(request, delivery.body()), response);
    }

    private static void refuse(HttpServletResponse response, int status, String text) throws IOException {
        response.setStatus(status);
        response.setContentType("text/plain;charset=utf-8");
        response.getWriter().write(text);
    }

    /** A request whose body has been read. */
    private static final class ReadRequest extends HttpServletRequestWrapper {
        private final byte[] body;

        ReadRequest(HttpServletRequest request, byte[] body) {
            super(request);
            this.body = body;
        }

        @Override
        public ServletInputStream getInputStream() {
            ByteArrayInputStream bytes = new ByteArrayInputStream(body);
            return new ServletInputStream() {
                @Override
                public int read() {
                    return bytes.read();
                }

                @Override
                public int read(byte[] into, int offset, int length) {
                    return bytes.read(into, offset, length);
                }

                @Override
                public boolean isFinished() {
                    return bytes.available() == 0;
                }

                @Override
                public boolean isReady() {
                    return true;
                }

                @Override
                public void setReadListener(ReadListener listener) {
                    throw new IllegalStateException("the body has been read: it is there at once");
                }
            };
        }

        @Override
        public BufferedReader getReader() {
            return new BufferedReader(new InputStreamReader(getInputStream(), StandardCharsets.UTF_8));
        }
    }
}
