package local

// Place is where and how a node runs, if not plainly on loopback. Its zero value changes nothing.
type Place struct {
	HTTPAddr string // host:port; empty: on loopback, as Config.HTTPPort says
	PeerAddr string // host:port; empty: on loopback
	Data     string // its data folder, beside the one with its log and pid; empty: that one

	// Command becomes the node: the node's own command is appended to it. It must exec that, so that the signals of this
	// package reach the node itself (ip netns exec, nsenter and taskset do).
	Command []string
	Env     []string // further variables, as NAME=value
	Args    []string // further arguments of its serve, after Config.ExtraArgs
}

// place is that of the i-th node.
func (c Config) place(i int) Place {
	if i < len(c.Places) {
		return c.Places[i]
	}
	return Place{}
}
