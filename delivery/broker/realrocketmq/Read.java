import com.alibaba.fastjson.JSON;
import java.util.Base64;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Prints the messages of a topic that an expression of tags selects, a line of JSON for each. */
public class Read {
  /** Takes the name server, the keys of access, the topic and the expression. */
  public static void main(String[] args) throws Exception {
    var credentials = new SessionCredentials(args[1], args[2]);
    var consumer = new DefaultMQPullConsumer("reader", new AclClientRPCHook(credentials));
    consumer.setNamesrvAddr(args[0]);
    consumer.start();
    for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(args[3])) {
      long offset = consumer.minOffset(queue);
      long end = consumer.maxOffset(queue);
      while (offset < end) {
        PullResult result = consumer.pull(queue, args[4], offset, 32);
        offset = result.getNextBeginOffset();
        if (result.getPullStatus() != PullStatus.FOUND) {
          continue;
        }
        for (MessageExt m : result.getMsgFoundList()) {
          byte[] body = m.getBody() == null ? new byte[0] : m.getBody();
          System.out.println("MESSAGE " + JSON.toJSONString(Map.of("id", m.getMsgId(), "keys", String.valueOf(m.getKeys()),
              "tag", String.valueOf(m.getTags()), "properties", m.getProperties(), "body", Base64.getEncoder().encodeToString(body))));
        }
      }
    }
    System.exit(0); // RocketMQ's threads would go on
  }
}
