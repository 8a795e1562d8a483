// Package access decides who may do what: the vocabulary of callers, grants and needs, the text of API keys, and the
// Authority that turns the credentials of a call into its Caller.
//
//	Role       what a caller may do: read, schedule, consume, operate, admin
//	Grant      a role within one namespace or all, and perhaps only for some queues and ids
//	Caller     an identity with its grants, as one call carries it
//	Need       what one call demands of its caller
//	Key        an API key's text: bfy_<id>_<secret>_<checksum>
//	Authority  the callers behind keys, tokens and certificates
//
// # Roles
//
// Each role includes read. Admin includes every role, and alone manages keys, namespaces and the audit log. A call
// about a queue or an id needs a grant that reaches both; a caller whose grants name queues or ids cannot list beyond
// them.
package access
