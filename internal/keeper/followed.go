package keeper

import (
	"context"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/plan"
)

// followedFor is how long a command waits for the fabric to follow.
const followedFor = 30 * time.Second

// Followed asks whether the fabric follows what Reconcile wrote, for all resources at once, as
// fabric.go does. It is for commands, which end when it returns: after followedFor, or a few
// seconds more if ARM has to be read again.
func (k *Keeper) Followed(ctx context.Context, r Result) []plan.Followed {
	asked, can := k.azure.(Fabric)
	if !can {
		return nil
	}
	all := make([]plan.Followed, len(r.questions))
	var asking sync.WaitGroup
	for i, q := range r.questions {
		asking.Go(func() {
			answer, differs := k.follows(ctx, asked, q, followedFor)
			follows := answer != "" && !differs && !strings.HasPrefix(answer, armOnly(""))
			if answer == "" {
				answer = armOnly("there is no machine to ask about")
			}
			all[i] = plan.Followed{Resource: q.written.ID, Follows: follows, Answer: answer}
			if recorder, can := k.opts.Recorder.(Noter); can {
				recorder.Note(q.changes, answer)
			}
		})
	}
	asking.Wait()
	return all
}
