package io.github.belfryhq.client;

import io.github.belfryhq.client.servlet.BelfryServletFilter;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServlet;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.EnumSet;
import org.eclipse.jetty.ee10.servlet.FilterHolder;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** A servlet behind a filter, in a server of its own. */
final class Served implements AutoCloseable {
    private final Server server = new Server();
    private final ServerConnector connector = new ServerConnector(server);

    Served(Receiver receiver, HttpServlet servlet) throws Exception {
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler();
        context.addFilter(new FilterHolder(new BelfryServletFilter(receiver)), "/*", EnumSet.of(DispatcherType.REQUEST));
        context.addServlet(new ServletHolder(servlet), "/close");
        server.setHandler(context);
        server.start();
    }

    HttpResponse<String> post(Signed request) throws IOException, InterruptedException {
        return Served.post("http://127.0.0.1:" + connector.getLocalPort() + "/close", request);
    }

    static HttpResponse<String> post(String url, Signed request) throws IOException, InterruptedException {
        HttpRequest.Builder builder =
                HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.ofByteArray(request.body()));
        request.headers().forEach(builder::setHeader);
        return HttpClient.newHttpClient().send(builder.build(), HttpResponse.BodyHandlers.ofString());
    }

    @Override
    public void close() {
        try {
            server.stop();
        } catch (Exception err) {
            throw new IllegalStateException(err);
        }
    }
}
