package peerkeys

import "time"

// NearEnd is the time before the end of a certificate from which on operators are warned.
const NearEnd = 30 * 24 * time.Hour

// The intervals of reminders, before and after the end.
const (
	remindBefore = 24 * time.Hour
	remindAfter  = time.Hour
)

// remind logs that the certificate or its authority ends soon, or has ended.
func (k *Keys) remind() {
	now, c := time.Now(), k.Credentials()
	left := c.Ends().Sub(now)
	since := now.Sub(k.reminded)
	valid := c.checkValid(now) == nil
	if valid && (left > NearEnd || since < remindBefore) || since < remindAfter {
		return
	}
	k.reminded = now
	log := k.cfg.Logger.With("file", k.cfg.Cert, "begins", c.Begins(), "ends", c.Ends(),
		"authority_ends", c.authority().NotAfter)
	if !valid {
		log.Error("the certificate is not valid now: other nodes refuse new connections of this node")
		return
	}
	log.Warn("the certificate ends soon: replace its files, and the node takes the new ones without a restart",
		"left", left.Round(time.Hour))
}
