package access

import "fmt"

// Role is a kind of work that a caller may do.
type Role uint8

// The roles. Each one includes Read, and Admin includes all.
const (
	Open     Role = iota // no role: the call is open to all, and needs no credentials
	Read                 // reads tasks, queues and the state of the cluster
	Schedule             // makes, changes and cancels tasks
	Consume              // leases and settles tasks
	Operate              // changes queues, nodes and shards, makes backups, and sees profiles
	Admin                // manages keys and namespaces, and reads the audit log
)

var roleNames = [...]string{"open", "read", "schedule", "consume", "operate", "admin"}

const roleList = "read, schedule, consume, operate or admin"

// String returns the name of the role in the contract.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// ParseRole returns the role with a name. Open has none that a grant can use.
func ParseRole(name string) (Role, error) {
	for r := Read; r <= Admin; r++ {
		if roleNames[r] == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%q is no role: %s", name, roleList)
}

// UnmarshalText sets the role to the one with a name.
func (r *Role) UnmarshalText(name []byte) (err error) {
	*r, err = ParseRole(string(name))
	return err
}

// Includes reports whether a caller with role r may make the calls that need the other role.
func (r Role) Includes(other Role) bool {
	return r == other || other == Open || other == Read && r != Open || r == Admin
}
