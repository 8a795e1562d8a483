// Package notify tells a service manager such as systemd the state of a node, by the protocol of sd_notify(3):
// assignments in a datagram to a Unix socket.
//
// The protocol is one datagram, so that the package takes the place of a library.
package notify

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"
)

// period is the time between two looks at the state.
const period = 250 * time.Millisecond

// Manager is a service manager that listens at a socket.
type Manager struct{ conn net.Conn }

// Dial connects to the socket of a manager: a path, or an abstract name that begins with @.
func Dial(socket string) (*Manager, error) {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	return &Manager{conn}, nil
}

// Follow tells the manager that the service has started once ready returns nil for the first time. It tells each change
// of the state as a status, until ctx ends: "ready", or ready's error. A manager that is away misses what it is told.
func (m *Manager) Follow(ctx context.Context, ready func() error) {
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	started, told := false, ""
	for {
		status := "ready"
		err := ready()
		if err != nil {
			status = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if status != told && m.tell("STATUS="+status) == nil {
			told = status
		}
		if err == nil && !started {
			started = m.tell("READY=1") == nil
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// Stop tells the manager that the service is stopping, and closes the connection.
func (m *Manager) Stop() error {
	return errors.Join(m.tell("STOPPING=1\nSTATUS=stopping"), m.conn.Close())
}

func (m *Manager) tell(state string) error {
	_, err := m.conn.Write([]byte(state))
	return err
}
