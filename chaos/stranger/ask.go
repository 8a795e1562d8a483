package stranger

import (
	"bufio"
	"bytes"
	"compress/lzw"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

const (
	askTimeout  = 3 * time.Second
	mostMembers = 1 << 20
)

// ask asks a node for the members that it knows, as a joining node does.
func ask(ctx context.Context, addr string) ([]state, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	question, err := encode(pushPullMsg, &header{Join: false})
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(question); err != nil {
		return nil, err
	}
	members, err := readStates(conn)
	if err != nil {
		return nil, fmt.Errorf("asking %s for the members: %w", addr, err)
	}
	return members, nil
}

// dial opens a gossip stream, which ends at the deadline of ctx.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline() // without one the zero time, which sets none
	err = conn.SetDeadline(deadline)
	if err == nil {
		_, err = conn.Write(append([]byte{streamByte}, label...))
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// readStates reads the answer to a push-pull. The answer is usually compressed.
func readStates(from io.Reader) ([]state, error) {
	in := bufio.NewReader(from)
	k, err := in.ReadByte()
	if err != nil {
		return nil, err
	}
	dec := codec.NewDecoder(in, &codec.MsgpackHandle{})
	if kind(k) == compressMsg {
		var c compressed
		if err := dec.Decode(&c); err != nil {
			return nil, err
		}
		plain := bufio.NewReader(lzw.NewReader(bytes.NewReader(c.Buf), lzw.LSB, 8))
		if k, err = plain.ReadByte(); err != nil {
			return nil, err
		}
		dec = codec.NewDecoder(plain, &codec.MsgpackHandle{})
	}
	if kind(k) != pushPullMsg {
		return nil, fmt.Errorf("a message of type %d, not the members", k)
	}
	var h header
	if err := dec.Decode(&h); err != nil {
		return nil, err
	}
	if h.Nodes < 0 || h.Nodes > mostMembers {
		return nil, fmt.Errorf("%d members; %d at most are believed", h.Nodes, mostMembers)
	}
	members := make([]state, h.Nodes)
	for i := range members {
		if err := dec.Decode(&members[i]); err != nil {
			return nil, err
		}
	}
	return members, nil
}
