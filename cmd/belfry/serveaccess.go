package main

import "github.com/spf13/pflag"

// addAccessFlags adds the flags of TLS and of the callers' credentials.
func (f *serveFlags) addAccessFlags(flags *pflag.FlagSet) {
	c := &f.node
	flags.StringVar(&c.Access.RootKeyFile, "root-key-file", "", "`file` with one API key, whose caller is an admin of "+
		"all namespaces; \"belfry key new-root\" makes it. Calls then need credentials")
	flags.StringVar(&c.TLS.Cert, "http-cert", "", "PEM `file` with the certificate for callers, then intermediate "+
		"certificates if any; it makes --http and --pprof speak TLS")
	flags.StringVar(&c.TLS.Key, "http-key", "", "PEM `file` with its private key")
	flags.StringVar(&c.TLS.ClientCA, "http-client-ca", "", "PEM `file` with the authorities that sign callers' "+
		"certificates. Calls then need credentials; callers may also show an API key")
	flags.StringVar(&c.TLS.ClientRoles, "http-client-roles", "", "YAML `file` with the grants of callers' certificates, "+
		"by their names")
	flags.BoolVar(&c.TLS.PlainLoopback, "http-plain-loopback", false, "let callers on this machine speak plain HTTP at "+
		"the same port")
	flags.BoolVar(&c.BehindProxy, "behind-proxy", false, "callers come only through a proxy that speaks TLS with them: a "+
		"call has the address that the proxy names in X-Forwarded-For or Forwarded")
	flags.StringVar(&c.Access.OIDCIssuer, "oidc-issuer", "", "`URL` of the OpenID Connect issuer whose tokens callers "+
		"may show. Calls then need credentials")
	flags.StringVar(&c.Access.OIDCCA, "oidc-ca", "", "PEM `file` with the authorities of the issuer's certificate "+
		"(default: those of the system)")
	flags.StringVar(&c.Access.OIDCAudience, "oidc-audience", "", "`name` of this cluster in the claim aud of the tokens")
	flags.StringVar(&c.Access.OIDCRoles, "oidc-roles", "", "YAML `file` with the grants of the tokens, by their claims")
}
