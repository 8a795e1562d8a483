import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.ConnectionFactory;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Publishes messages with delays and consumes them. It is written for RabbitMQ's plugin for delayed messages. */
public class Client {
  static final int COUNT = 30;

  public static void main(String[] args) throws Exception {
    var factory = new ConnectionFactory();
    factory.setUri("amqp://app:secret@" + args[0]);
    try (var connection = factory.newConnection()) {
      var channel = connection.createChannel();
      channel.exchangeDeclare("java", "x-delayed-message", true, false, Map.of("x-delayed-type", "fanout"));
      channel.queueDeclare("java", true, false, false, null);
      channel.queueBind("java", "java", "");
      channel.confirmSelect();

      var due = new ConcurrentHashMap<Integer, Long>();
      for (int n = 0; n < COUNT; n++) {
        long delay = n % 3 * 400;
        due.put(n, System.currentTimeMillis() + delay);
        Map<String, Object> headers = delay == 0 ? Map.of("n", n) : Map.of("n", n, "x-delay", delay);
        var properties = new AMQP.BasicProperties.Builder().headers(headers).correlationId("" + n).deliveryMode(2).build();
        channel.basicPublish("java", "", properties, ("body " + n).getBytes(StandardCharsets.UTF_8));
      }
      channel.waitForConfirmsOrDie(30_000);
      var left = new CountDownLatch(COUNT);
      var wrong = new ConcurrentHashMap<Integer, String>();
      channel.basicConsume("java", true, (tag, message) -> {
        int n = (Integer) message.getProperties().getHeaders().get("n");
        Long at = due.remove(n);
        if (at == null || System.currentTimeMillis() < at) {
          wrong.put(n, "early, or twice");
        }
        Object delay = message.getProperties().getHeaders().get("x-delay");
        if (!new String(message.getBody(), StandardCharsets.UTF_8).equals("body " + n)
            || !message.getProperties().getCorrelationId().equals("" + n)
            || n % 3 > 0 && ((Number) delay).longValue() != -(n % 3 * 400)) {
          wrong.put(n, "came as " + message.getProperties());
        }
        left.countDown();
      }, tag -> { });
      if (!left.await(30, TimeUnit.SECONDS) || !wrong.isEmpty()) {
        System.err.println(left.getCount() + " messages did not come; " + wrong);
        System.exit(1);
      }
      System.out.println("received " + COUNT);
    }
  }
}
