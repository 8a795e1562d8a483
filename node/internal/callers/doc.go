// Package callers finds the callers of a node's ports: by the credentials in the node's own files, by an issuer of
// tokens, and by the keys that the cluster has committed.
//
//	from                 holds                                    a change takes effect
//	Config.RootKeyFile   the root key                             with the next call
//	Config.ClientRoles   the grants of client certificates        with the next call
//	Config.TokenRoles    the grants of tokens                     with the next call
//	Config.Issuer        the issuer of tokens                     its keys: see package oidc
//	Use                  the keys of the cluster                  see package tenants
//
// The decisions are those of package access; this package keeps their ground up to date.
//
//   - The files are read again as package reload does. A faulty file changes nothing but a warning and a metric.
//   - Before Use, the keys are those that the node knew when it ran last. A new node knows none: calls that need them
//     are refused as unavailable. The root key, client certificates and tokens count at once.
//   - A node with credentials of its own commits the fact that calls need credentials, once the control group works. So
//     a node without such files demands them, too.
//   - A connection may outlast the certificate that opened it. Its calls have no certificate then.
package callers
