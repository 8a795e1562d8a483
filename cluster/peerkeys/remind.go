package peerkeys

import "time"

// remind logs that the certificate or its authority ends soon, or has ended.
func (k *Keys) remind() {
	now, c := time.Now(), k.Credentials()
	due, valid := k.reminder.Due(now, c.Begins(), c.Ends())
	if !due {
		return
	}
	log := k.cfg.Logger.With("file", k.cfg.Cert, "begins", c.Begins(), "ends", c.Ends(),
		"authority_ends", c.authority().NotAfter)
	if !valid {
		log.Error("the certificate is not valid now: other nodes refuse new connections of this node")
		return
	}
	log.Warn("the certificate ends soon: replace its files, and the node takes the new ones without a restart",
		"left", c.Ends().Sub(now).Round(time.Hour))
}
