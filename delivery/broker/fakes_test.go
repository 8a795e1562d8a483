package broker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// fakeRedis answers commands in order: with the result of answer, or else as Redis would.
func fakeRedis(t testing.TB, answer func(command string) string) string {
	return listen(t, serveRedis(answer))
}

func serveRedis(answer func(command string) string) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			words, err := redisCommand(in)
			if err != nil {
				return
			}
			reply := ""
			if answer != nil {
				reply = answer(strings.ToLower(words[0]))
			}
			if _, err := c.Write([]byte(orElse(reply, redisReply(words[0])))); err != nil {
				return
			}
		}
	}
}

func redisReply(command string) string {
	switch strings.ToLower(command) {
	case "ping":
		return "+PONG\r\n"
	case "xadd":
		return "$3\r\n1-1\r\n"
	case "rpush", "lpush":
		return ":1\r\n"
	}
	return "-ERR unknown command\r\n"
}

// redisCommand reads an array of bulk strings.
func redisCommand(in *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		var size int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:size])
	}
	return words, nil
}

// natsWelcomes is a server that accepts messages of up to 1 MiB and acknowledges none.
func natsWelcomes(c net.Conn) { natsServes(c, 1<<20) }

func natsServes(c net.Conn, maxPayload int) {
	_, _ = fmt.Fprintf(c, `INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":%d}`+"\r\n", maxPayload)
	for in := bufio.NewScanner(c); in.Scan(); {
		if strings.HasPrefix(in.Text(), "PING") {
			_, _ = c.Write([]byte("PONG\r\n"))
		}
	}
}

// amqpWelcomes is a broker that opens a connection and no channel, calls then, and reports that it is blocked.
func amqpWelcomes(c net.Conn, then func()) {
	in := bufio.NewReader(c)
	if _, err := io.ReadFull(in, make([]byte, 8)); err != nil { // AMQP, 0, 0, 9, 1
		return
	}
	start := "\x00\x0a\x00\x0a\x00\x09" + "\x00\x00\x00\x00" + "\x00\x00\x00\x05PLAIN" + "\x00\x00\x00\x05en_US"
	tune := "\x00\x0a\x00\x1e\x00\x80\x00\x02\x00\x00\x00\x00"
	for _, method := range []string{start, tune} {
		_, _ = c.Write(amqpFrame(method))
		if err := skipFrame(in); err != nil {
			return
		}
	}
	if err := skipFrame(in); err != nil { // open, after tune-ok
		return
	}
	_, _ = c.Write(amqpFrame("\x00\x0a\x00\x29\x00"))
	then()
	_, _ = c.Write(amqpFrame("\x00\x0a\x00\x3c\x0dlow on memory"))
	hang(c)
}

// rocketRoutes is a name server and a broker that never answers messages.
func rocketRoutes(c net.Conn) {
	serveRocketMQ(func(request *rocketAnswer) (int, string) {
		if request.Code == rocketAskRoute {
			return rocketDone, rocketRouteTo(c.LocalAddr().String())
		}
		return -1, ""
	})(c)
}

// serveRocketMQ answers requests with the code and body that answer returns, and not at all for a negative code.
func serveRocketMQ(answer func(*rocketAnswer) (code int, body string)) func(net.Conn) {
	return func(c net.Conn) {
		for {
			request, err := readRocketAnswer(c) // its form is the same
			if err != nil {
				return
			}
			code, body := answer(request)
			if code < 0 {
				continue
			}
			head := rocketHead{Code: code, Flag: 1, Opaque: request.Opaque, Remark: "no\nway"}
			frame, err := rocketFrame(head, []byte(body))
			if err != nil {
				return
			}
			if _, err := c.Write(frame); err != nil {
				return
			}
		}
	}
}

// rocketRouteTo returns a route to brokers with two queues each.
func rocketRouteTo(addrs ...string) string {
	var brokers, queues []string
	for i, addr := range addrs {
		brokers = append(brokers, fmt.Sprintf(`{"brokerName":"b%d","brokerAddrs":{"0":%q,"1":"replica:1"}}`, i, addr))
		queues = append(queues, fmt.Sprintf(`{"brokerName":"b%d","perm":6,"readQueueNums":2,"writeQueueNums":2}`, i))
	}
	return fmt.Sprintf(`{"brokerDatas":[%s],"queueDatas":[%s]}`, strings.Join(brokers, ","), strings.Join(queues, ","))
}

func amqpFrame(method string) []byte {
	out := binary.BigEndian.AppendUint32([]byte{1, 0, 0}, uint32(len(method)))
	return append(append(out, method...), 0xce)
}

func skipFrame(in *bufio.Reader) error {
	head := make([]byte, 7)
	if _, err := io.ReadFull(in, head); err != nil {
		return err
	}
	_, err := in.Discard(int(binary.BigEndian.Uint32(head[3:])) + 1)
	return err
}
