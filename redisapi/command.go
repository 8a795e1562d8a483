package redisapi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/client"
)

// seePage ends the error of what this port does not do.
const seePage = "docs/guides/redis.md says what there is"

// version is the release of Redis whose answers the commands have.
const version = "7.2.0"

// command is an entry of the table of commands. Its arguments do not include its name.
type command struct {
	arity int                                     // of the name and the arguments; below 0: at least
	flags []string                                // as COMMAND tells them
	keyed bool                                    // the first argument is a key
	run   func(c *conn, args [][]byte) error      // answers, or returns the error that is the answer
	edits func(u Unit, args [][]byte) (e pending) // in place of run
}

// pending is a command that is carried out together with those beside it.
type pending struct {
	edits []*edit
	count func() int // the answer
	err   error      // nil: the command was read
}

// commands returns the table of commands, by their names.
func commands() map[string]command {
	connection, read, write := []string{"fast", "noscript", "loading", "stale"}, []string{"readonly"}, []string{"write"}
	return map[string]command{
		"PING":    {arity: -1, flags: connection, run: (*conn).ping},
		"ECHO":    {arity: 2, flags: connection, run: (*conn).echo},
		"AUTH":    {arity: -2, flags: connection, run: (*conn).auth},
		"HELLO":   {arity: -1, flags: connection, run: (*conn).hello},
		"SELECT":  {arity: 2, flags: connection, run: (*conn).selectDB},
		"CLIENT":  {arity: -2, flags: connection, run: (*conn).about},
		"COMMAND": {arity: -1, flags: connection, run: (*conn).command},
		"INFO":    {arity: -1, flags: connection, run: (*conn).info},
		"QUIT":    {arity: -1, flags: connection, run: (*conn).quit},
		"MULTI":   {arity: 1, flags: connection, run: (*conn).multi},
		"EXEC":    {arity: 1, flags: connection, run: (*conn).exec},
		"DISCARD": {arity: 1, flags: connection, run: (*conn).discard},

		"ZADD":          {arity: -4, flags: write, keyed: true, edits: zaddEdits},
		"ZREM":          {arity: -3, flags: write, keyed: true, edits: zremEdits},
		"ZSCORE":        {arity: 3, flags: read, keyed: true, run: (*conn).zscore},
		"ZCARD":         {arity: 2, flags: read, keyed: true, run: (*conn).zcard},
		"ZRANGEBYSCORE": {arity: -4, flags: read, keyed: true, run: (*conn).zrangebyscore},
		"ZPOPMIN":       {arity: -2, flags: write, keyed: true, run: (*conn).zpopmin},
	}
}

// find returns the command of a name and its arguments, or the error that is its answer.
func (s *Server) find(args [][]byte) (command, error) {
	name := strings.ToLower(string(args[0]))
	cmd, ok := s.commands[strings.ToUpper(name)]
	switch {
	case !ok:
		var beginning strings.Builder
		for _, arg := range args[1:min(len(args), 4)] {
			fmt.Fprintf(&beginning, "'%s' ", clip(arg))
		}
		return cmd, fmt.Errorf("ERR unknown command '%s', with args beginning with: %s- %s", clip(args[0]),
			beginning.String(), seePage)
	case cmd.arity >= 0 && len(args) != cmd.arity, len(args) < -cmd.arity:
		return cmd, fmt.Errorf("ERR wrong number of arguments for '%s' command", name)
	}
	return cmd, nil
}

func (c *conn) ping(args [][]byte) error {
	switch len(args) {
	case 0:
		c.simple("PONG")
	case 1:
		c.bulk(string(args[0]))
	default:
		return errors.New("ERR wrong number of arguments for 'ping' command")
	}
	return nil
}

func (c *conn) echo(args [][]byte) error {
	c.bulk(string(args[0]))
	return nil
}

func (c *conn) selectDB(args [][]byte) error {
	n, err := strconv.Atoi(string(args[0]))
	switch {
	case err != nil:
		return errNotInteger
	case n != 0:
		return errors.New("ERR DB index is out of range: there is 0 only, and a namespace has keys of its own")
	}
	c.simple("OK")
	return nil
}

// auth takes an API key. The name of the user is that of the key's namespace, or default.
func (c *conn) auth(args [][]byte) error {
	user, key := []byte("default"), args[len(args)-1]
	switch len(args) {
	case 1:
	case 2:
		user = args[0]
	default:
		return errSyntax
	}
	if err := c.logIn(string(user), string(key)); err != nil {
		return err
	}
	c.simple("OK")
	return nil
}

// logIn makes the calls to come carry a key, if it is in force.
func (c *conn) logIn(user, key string) error {
	next, err := c.newClient(key)
	if err != nil || key == "" {
		return errWrongPass
	}
	caller, err := next.WhoAmI(c.server.ctx)
	switch {
	case errors.Is(err, client.ErrUnauthenticated):
		return errWrongPass
	case err != nil:
		return refusal(err)
	case user != "default" && user != caller.Namespace:
		return errWrongPass
	}
	c.client = next
	return nil
}

var errProtocol = errors.New("NOPROTO unsupported protocol version")

// hello sets the protocol, and perhaps the key and the name of the connection.
func (c *conn) hello(args [][]byte) error {
	resp3, name := c.resp3, c.name
	if len(args) > 0 {
		switch string(args[0]) {
		case "2", "3":
			resp3 = string(args[0]) == "3"
		default:
			return errProtocol
		}
		args = args[1:]
	}
	var credentials [][]byte
	for len(args) > 0 {
		switch option := upper(args[0]); {
		case option == "AUTH" && len(args) >= 3:
			credentials, args = args[1:3], args[3:]
		case option == "SETNAME" && len(args) >= 2:
			name, args = string(args[1]), args[2:]
		default:
			return fmt.Errorf("ERR syntax error in HELLO option '%s'", clip(args[0]))
		}
	}
	if err := checkName(name); err != nil {
		return err
	}
	if credentials != nil {
		if err := c.logIn(string(credentials[0]), string(credentials[1])); err != nil {
			return err
		}
	}
	c.resp3, c.name = resp3, name
	proto := 2
	if resp3 {
		proto = 3
	}
	c.pairs(7)
	c.bulk("server")
	c.bulk("redis")
	c.bulk("version")
	c.bulk(version)
	c.bulk("proto")
	c.integer(proto)
	c.bulk("id")
	c.integer(c.id)
	c.bulk("mode")
	c.bulk("standalone")
	c.bulk("role")
	c.bulk("master")
	c.bulk("modules")
	c.array(0)
	return nil
}

func checkName(name string) error {
	const most = 128
	if len(name) > most || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("ERR Client names cannot contain spaces, newlines or special characters, and have %d bytes at most",
			most)
	}
	return nil
}

// about answers CLIENT.
func (c *conn) about(args [][]byte) error {
	switch sub, rest := upper(args[0]), args[1:]; {
	case sub == "ID" && len(rest) == 0:
		c.integer(c.id)
	case sub == "GETNAME" && len(rest) == 0:
		if c.name == "" {
			c.null()
			return nil
		}
		c.bulk(c.name)
	case sub == "SETNAME" && len(rest) == 1:
		if err := checkName(string(rest[0])); err != nil {
			return err
		}
		c.name = string(rest[0])
		c.simple("OK")
	case sub == "SETINFO" && len(rest) == 2:
		c.simple("OK") // it is nowhere shown
	default:
		return fmt.Errorf("ERR unknown subcommand '%s': ID, GETNAME, SETNAME and SETINFO are there", clip(args[0]))
	}
	return nil
}

// command answers COMMAND.
func (c *conn) command(args [][]byte) error {
	sub, names := "", slices.Sorted(maps.Keys(c.server.commands))
	if len(args) > 0 {
		sub = upper(args[0])
	}
	switch sub {
	case "COUNT":
		c.integer(len(names))
		return nil
	case "DOCS":
		c.pairs(0)
		return nil
	case "INFO":
		if len(args) > 1 {
			names = nil
			for _, name := range args[1:] {
				names = append(names, upper(name))
			}
		}
	case "LIST":
		c.array(len(names))
		for _, name := range names {
			c.bulk(strings.ToLower(name))
		}
		return nil
	case "":
	default:
		return fmt.Errorf("ERR unknown subcommand '%s': COUNT, DOCS, INFO and LIST are there", clip(args[0]))
	}
	c.array(len(names))
	for _, name := range names {
		c.describe(name)
	}
	return nil
}

func (c *conn) describe(name string) {
	cmd, ok := c.server.commands[name]
	if !ok {
		c.null()
		return
	}
	c.array(6)
	c.bulk(strings.ToLower(name))
	c.integer(cmd.arity)
	c.array(len(cmd.flags))
	for _, flag := range cmd.flags {
		c.simple(flag)
	}
	key := 0
	if cmd.keyed {
		key = 1
	}
	for range 3 { // the first key, the last one, and the step
		c.integer(key)
	}
}

// info answers INFO, for clients that wait until a server has loaded its data.
func (c *conn) info([][]byte) error {
	c.bulk("# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n\r\n" +
		"# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n")
	return nil
}

func (c *conn) quit([][]byte) error {
	c.simple("OK")
	c.ends = true
	return nil
}

// multi begins a transaction, whose commands are not carried out.
func (c *conn) multi([][]byte) error {
	if c.queues {
		return errors.New("ERR MULTI calls can not be nested")
	}
	c.queues = true
	c.simple("OK")
	return nil
}

func (c *conn) exec([][]byte) error {
	if !c.queues {
		return errors.New("ERR EXEC without MULTI")
	}
	c.queues = false
	return errors.New("EXECABORT Transaction discarded: the members of a key lie in several shards, so that there are " +
		"no transactions, and none of its commands was carried out; use a pipeline without MULTI: " + seePage)
}

func (c *conn) discard([][]byte) error {
	if !c.queues {
		return errors.New("ERR DISCARD without MULTI")
	}
	c.queues = false
	c.simple("OK")
	return nil
}
