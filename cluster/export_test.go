package cluster

// ControlLeader returns the leader of the control group as far as the node knows, or "".
func (n *Node) ControlLeader() string {
	leader, _ := n.control.Group().Leader()
	return leader
}
