package store

import "github.com/belfryhq/belfry/fsm/fsmpb"

// series hashes the state of a schedule.
func (d *digester) series(s *fsmpb.Series) {
	d.repeat(s.Repeat)
	d.uint(uint64(s.Misfire))
	d.int(s.MisfireWindowMs)
	d.uint(uint64(s.Overlap))
	d.bool(s.Paused)
	d.string(s.Note)
	d.uint(s.Version)
	d.uint(s.Last)
	d.uint(s.Ruled)
	d.int(s.AfterMs)
	d.uint(uint64(len(s.Next)))
	for _, i := range s.Next {
		d.int(i.ScheduledMs)
		d.int(i.FireMs)
	}
	d.bool(s.Complete)
	for _, list := range [][]*fsmpb.Occurrence{s.Live, s.Queued, s.Past} {
		d.uint(uint64(len(list)))
		for _, o := range list {
			d.occurrence(o)
		}
	}
	d.uint(s.Started)
	d.uint(s.Passed)
	d.int(s.JudgedMs)
	d.uint(s.CalendarVersion)
}

func (d *digester) repeat(r *fsmpb.Repeat) {
	if r == nil {
		r = &fsmpb.Repeat{}
	}
	d.strings(r.Cron)
	d.int(r.EveryMs)
	d.optional(r.AnchorMs)
	d.string(r.TimeZone)
	d.optional(r.StartMs)
	d.optional(r.EndMs)
	d.int(r.Count)
	d.strings(r.Except)
	d.int(r.JitterMs)
	d.string(r.Calendar)
}

func (d *digester) occurrence(o *fsmpb.Occurrence) {
	d.uint(o.Number)
	d.uint(o.Count)
	d.int(o.ScheduledMs)
	d.uint(uint64(o.Origin))
	d.uint(uint64(o.Passed))
	d.uint(uint64(o.State))
	d.uint(uint64(o.Attempts))
	d.int(o.BeganMs)
	d.int(o.EndedMs)
	d.string(o.Error)
	d.int(o.FireMs)
}

func (d *digester) strings(list []string) {
	d.uint(uint64(len(list)))
	for _, v := range list {
		d.string(v)
	}
}

func (d *digester) optional(v *int64) {
	d.bool(v != nil)
	if v != nil {
		d.int(*v)
	}
}
