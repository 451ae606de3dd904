package lab

import (
	"fmt"
	"time"

	"routekeeper.dev/routekeeper/internal/prove"
)

// trial is a trial that runs. Its steps do nothing once a call has failed: so a trial reads as the
// list of its calls, and of what they show.
type trial struct{ caller }

// changed returns a changed text. If the change failed, the trial fails.
func (t *trial) changed(raw []byte, err error) []byte {
	t.fail(err)
	return raw
}

// fact notes what the trial shows about a fact. It counts only if the trial does not fail.
func (t *trial) fact(name string, j prove.Judgement) { t.seen.Facts[name] = j }

func untested(why string) prove.Judgement {
	return prove.Judgement{Verdict: prove.Untested, Seen: why}
}

func confirmed(seen string) prove.Judgement {
	return prove.Judgement{Verdict: prove.Confirmed, Seen: seen}
}

func differs(seen string) prove.Judgement {
	return prove.Judgement{Verdict: prove.Differs, Seen: seen}
}

// confirmedIf returns one of two judgements.
func confirmedIf(as bool, seen, otherwise string) prove.Judgement {
	if as {
		return confirmed(seen)
	}
	return differs(otherwise)
}

// seconds returns a duration as the report shows it.
func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}
