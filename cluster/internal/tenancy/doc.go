// Package tenancy changes the control group's record of API keys and namespaces. All of it is a pure function of the
// state: package control commits the entries, and package tenants asks for the changes at any node.
//
//	Prepare  at the leader: checks an entry against the limits, and sets the leader's time in it
//	AddKey, … at every replica: carry out an entry, and replace the changed parts of a state; an error leaves it spoiled
//	Key, Find, Deleting  readers
//
//	change           refused if                                        a repeat
//	AddKey           a limit, MaxKeys, a namespace that is not there   changes nothing (the same id and hash)
//	RemoveKey        never                                             changes nothing
//	RotateKey        two secrets are valid and would stay so           changes nothing (the same hash)
//	UseKeys          never                                             changes nothing (the same hour)
//	EnforceKeys      never                                             changes nothing
//	SetNamespace     a limit, MaxNamespaces, it is being deleted       changes nothing
//	DeleteNamespace  it is the default one                             changes nothing
//	EndNamespace     it is not being deleted                           changes nothing (it is gone)
//
// # Keys
//
//   - The state has the SHA-256 of a key's whole text, which has 256 random bits. So a plain hash cannot be searched,
//     and a slow one would add nothing but a cost to each call.
//   - The first key puts keys in force, and so does EnforceKeys. No entry takes that back: the removal of the last key
//     opens nothing.
//   - A rotation adds a secret under the same id. The older one is valid for the overlap from then on. An overlap of 0
//     ends all older secrets, as after a leak. A third valid secret is refused: its addition would have to end one that
//     callers still have.
//   - A key that has expired stays listed for KeepExpired, so that an operator sees why callers are refused.
//   - The last use is kept to the hour, so that a key costs one entry an hour and not one a call.
//
// # Namespaces
//
//   - The default namespace always exists. The state has a record of it only for its quotas.
//   - Each grant of a key is for all namespaces, or for one that exists. EndNamespace therefore removes the grants for
//     its namespace: a later namespace of the same name must not let in the callers of the old one.
//   - A new namespace has no policies, also if a policy came while an earlier one of the name ended.
//   - A namespace that is being deleted keeps its policies until its tasks are gone, so that no paused queue fires.
//   - The deletion follows the namespace's state. Its operation only shows it: a restored cluster, which has no
//     operations, deletes on.
//
// A namespace beside others has at most half of the cluster's keys and policies. The leader checks that before it
// proposes.
//
// Applying reads no clock and no limit that a caller is told about, except for MaxKeys and MaxNamespaces: limits may
// differ from build to build.
package tenancy
