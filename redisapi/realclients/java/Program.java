import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ZAddParams;
import redis.clients.jedis.resps.Tuple;

/** Keeps delayed work in a sorted set, as programs do with Jedis. Arguments: host, port, password. */
public final class Program {
  private static void check(Object got, Object want) {
    if (want == null ? got != null : !want.equals(got)) {
      throw new AssertionError(got + ", want " + want);
    }
  }

  public static void main(String[] args) {
    var config = DefaultJedisClientConfig.builder().password(args[2]).clientName("worker").build();
    try (var client = new JedisPooled(new HostAndPort(args[0], Integer.parseInt(args[1])), config)) {
      double now = System.currentTimeMillis() / 1000.0;
      double later = Math.floor(now) + 3600;
      check(client.zadd("jobs", Map.of("a", now - 2, "b", now - 1, "{\"order\": 1}", later)), 3L);
      check(client.zadd("jobs", now - 3, "a", ZAddParams.zAddParams().xx().ch()), 1L);
      check(client.zadd("jobs", later, "b", ZAddParams.zAddParams().nx()), 0L);
      check(client.zscore("jobs", "{\"order\": 1}"), later);
      check(client.zscore("jobs", "none"), null);
      check(client.zcard("jobs"), 3L);
      check(client.zrangeByScore("jobs", "-inf", Double.toString(now), 0, 10), List.of("a", "b"));
      check(client.zrem("jobs", "a", "none"), 1L);
      check(client.zrem("jobs", "a"), 0L);
      List<Tuple> popped = List.of();
      for (long deadline = System.nanoTime() + 30_000_000_000L; popped.isEmpty();) {
        check(System.nanoTime() < deadline, true);
        popped = client.zpopmin("jobs", 1);
      }
      check(popped.get(0).getElement(), "b");
      var added = new ArrayList<Response<Long>>();
      try (var pipe = client.pipelined()) {
        for (int n = 0; n < 200; n++) {
          added.add(pipe.zadd("many", later + n, "m" + n));
        }
        pipe.sync();
      }
      added.forEach(response -> check(response.get(), 1L));
      check(client.zrangeByScore("many", "(" + later, "+inf").size(), 199);
      try {
        client.zadd("jobs", Double.NaN, "a");
        check("an error", "none");
      } catch (JedisDataException e) {
        check(e.getMessage(), "ERR value is not a valid float");
      }
    }
    System.out.println("ok");
  }
}
