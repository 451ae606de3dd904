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

// Followed asks whether the fabric follows what Round wrote, about all resources at once, in the way of
// fabric.go. It is for commands, which end when it returns: after followedFor, or some seconds more
// where ARM has to be read again.
func (k *Keeper) Followed(ctx context.Context, r Round) []plan.Followed {
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
				answer = armOnly("no machine behind it can be asked about")
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
