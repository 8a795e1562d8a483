//go:build linux

package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// rocketServers is a name server and a broker of RocketMQ, with and without TLS. The user belfry-key may publish to the
// topics orders and missing, and admin-key may do everything.
type rocketServers struct {
	t            *testing.T
	name, broker string // addresses
	folder       string
	brokerOf     *process
}

func startRocketMQ(t *testing.T) *rocketServers {
	t.Helper()
	wantServer(t, "rocketmq")
	ports := freePorts(t, 3)
	s := &rocketServers{t: t, name: local(ports[0]), broker: local(ports[1]), folder: t.TempDir()}
	certificates(t, s.folder)
	writeFile(t, s.folder+"/name.conf", fmt.Sprintf("listenPort=%d\n", ports[0]))
	writeFile(t, s.folder+"/broker.conf", fmt.Sprintf(`brokerClusterName=test
brokerName=one
brokerId=0
brokerIP1=127.0.0.1
listenPort=%d
haListenPort=%d
namesrvAddr=%s
storePathRootDir=%[4]s/store
storePathCommitLog=%[4]s/store/commitlog
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=120000
flushDiskType=SYNC_FLUSH
autoCreateTopicEnable=false
aclEnable=true
`, ports[1], ports[2], s.name, s.folder))
	assert.NoError(t, os.Mkdir(s.folder+"/conf", 0o700))
	writeFile(t, s.folder+"/conf/plain_acl.yml", `accounts:
  - {accessKey: belfry-key, secretKey: pass word, admin: false, defaultTopicPerm: DENY, defaultGroupPerm: DENY,
     topicPerms: [orders=PUB, missing=PUB]}
  - {accessKey: admin-key, secretKey: admin-secret, admin: true}
`)
	writeFile(t, s.folder+"/conf/tools.yml", "accessKey: admin-key\nsecretKey: admin-secret\n")
	startProcess(t, "boot success", func() *exec.Cmd {
		return s.java("org.apache.rocketmq.namesrv.NamesrvStartup", "-c", s.folder+"/name.conf")
	})
	s.brokerOf = startProcess(t, "boot success", func() *exec.Cmd {
		return s.java("org.apache.rocketmq.broker.BrokerStartup", "-c", s.folder+"/broker.conf")
	})
	return s
}

// java returns the command that runs a class, or a file with one, beside RocketMQ's.
func (s *rocketServers) java(class string, args ...string) *exec.Cmd {
	s.t.Helper()
	path, err := os.ReadFile(os.Getenv("BELFRY_ROCKETMQ_CLASSPATH"))
	assert.NoError(s.t, err)
	cmd := exec.Command("java", append([]string{"-Xmx512m", "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
		"--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", strings.TrimSpace(string(path)), "-Duser.home=" + s.folder,
		"-Dtls.test.mode.enable=false", "-Dtls.server.certPath=" + s.folder + "/cert.pem",
		"-Dtls.server.keyPath=" + s.folder + "/key.pem", class}, args...)...)
	cmd.Env = append(os.Environ(), "ROCKETMQ_HOME="+s.folder)
	return cmd
}

// admin runs a command of RocketMQ's administration at the broker.
func (s *rocketServers) admin(args ...string) {
	s.t.Helper()
	args = append(args, "-n", s.name, "-b", s.broker)
	out, err := s.java("org.apache.rocketmq.tools.command.MQAdminStartup", args...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "success") {
		s.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// rocketMessage is a message as RocketMQ's client for Java reads it.
type rocketMessage struct {
	ID, Keys, Tag string
	Properties    map[string]string
	Body          []byte
}

// read returns a topic's messages with certain tags.
func (s *rocketServers) read(topic, tags string) []rocketMessage {
	s.t.Helper()
	cmd := s.java(filepath.Join("realrocketmq", "Read.java"), s.name, "admin-key", "admin-secret", topic, tags)
	out, err := cmd.Output()
	assert.NoError(s.t, err, "%s", out)
	var messages []rocketMessage
	for line := range strings.Lines(string(out)) {
		if text, found := strings.CutPrefix(line, "MESSAGE "); found {
			var m rocketMessage
			assert.NoError(s.t, json.Unmarshal([]byte(text), &m))
			messages = append(messages, m)
		}
	}
	return messages
}

func (s *rocketServers) received() []received {
	s.t.Helper()
	var out []received
	for _, m := range s.read("orders", "stream") {
		assert.Equal(s.t, m.ID, m.Properties["webhook-id"])
		maps.DeleteFunc(m.Properties, func(name, _ string) bool { return strings.ToUpper(name) == name }) // RocketMQ's own
		if m.Properties["content-type"] == "" {
			assert.Equal(s.t, string(m.Body), rocketEmpty)
			m.Body = nil
		}
		out = append(out, received{m.Properties, m.Body})
	}
	return out
}

func TestRocketMQServer(t *testing.T) {
	s := startRocketMQ(t)
	for _, topic := range []string{"orders", "secret"} {
		s.admin("updateTopic", "-t", topic, "-r", "4", "-w", "4")
	}
	publisher := newPublisher(t, withFile(t, fmt.Sprintf(
		"rocketmq://%[1]s: {user: belfry-key, password: pass word}\n"+
			"rocketmqs://%[1]s: {user: belfry-key, password: pass word, ca: %[2]s/ca.pem}\n", s.name, s.folder)))
	url := "rocketmq://" + s.name + "/"

	t.Run("failures", func(t *testing.T) {
		for _, c := range []struct{ topic, says string }{
			{"missing", `no broker has topic "missing"`},
			{"secret", "the broker refused: "},
		} {
			out := publisher.Deliver(t.Context(), attemptOf(url+c.topic))
			if out.Delivered || out.Permanent || !strings.HasPrefix(out.Error, c.says) {
				t.Errorf("%s: %+v", c.topic, out)
			}
			t.Logf("%s: %s", c.topic, out.Error)
		}
		out := newPublisher(t, permit(t, url)).Deliver(t.Context(), attemptOf(url+"orders"))
		if out.Delivered || out.Permanent || !strings.HasPrefix(out.Error, "the broker refused: ") {
			t.Errorf("a stranger: %+v", out)
		}
		out = newPublisher(t, permit(t, "rocketmqs://"+s.name)).Deliver(t.Context(), attemptOf("rocketmqs://"+s.name+"/orders"))
		if out.Delivered || !strings.Contains(out.Error, "certificate refused") {
			t.Errorf("a stranger with TLS: %+v", out)
		}
		wrong := withFile(t, "rocketmq://"+s.name+": {user: belfry-key, password: another}")
		out = newPublisher(t, wrong).Deliver(t.Context(), attemptOf(url+"orders"))
		if out.Delivered || strings.Contains(out.Error, "another") || !strings.HasPrefix(out.Error, "the broker refused: ") {
			t.Errorf("a wrong password: %+v", out)
		}
		t.Log(out.Error)
	})
	t.Run("tag and keys, TLS", func(t *testing.T) {
		for _, place := range []string{url + "orders?tag=paid&keys=1042+eu", "rocketmqs://" + s.name + "/orders?tag=late"} {
			assert.Equal(t, publisher.Deliver(t.Context(), attemptOf(place)), task.Outcome{Delivered: true})
		}
		paid := s.read("orders", "paid")
		if len(paid) != 1 || paid[0].ID != "w-order-1042" || paid[0].Tag != "paid" || paid[0].Keys != "1042 eu" ||
			string(paid[0].Body) != `{"order": 1042}` || paid[0].Properties["belfry-fence"] != "77" {
			t.Errorf("%+v", paid)
		}
		assert.Equal(t, len(s.read("orders", "paid || late")), 2)
	})
	t.Run("stream", func(t *testing.T) {
		stream(t, publisher, streamed{url: url + "orders?tag=stream", restart: s.brokerOf.restart, ce: "CE_", read: s.received})
	})
	t.Run("too large", func(t *testing.T) {
		s.admin("updateBrokerConfig", "-k", "maxMessageSize", "-v", "1000")
		out := publisher.Deliver(t.Context(), attemptOf(url+"orders", func(t *fsmpb.Task) { t.Spec.Payload = make([]byte, 2000) }))
		if !out.Permanent || !strings.HasPrefix(out.Error, "the broker refused: ") {
			t.Errorf("%+v", out)
		}
		t.Log(out.Error)
	})
}
