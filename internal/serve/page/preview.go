package page

import (
	"crypto/rand"
	"reflect"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/plan"
)

const (
	// confirmWithin is how long a preview can be confirmed.
	confirmWithin = 10 * time.Minute
	// mostPreviews is how many previews can wait to be confirmed.
	mostPreviews = 1000
)

// preview is what a person was shown before an action.
type preview struct {
	action, cluster string
	person          string
	changes         []plan.Change
}

// previews are the previews that can be confirmed, by the token that confirms them. Each can be
// confirmed once, by the person who saw it.
type previews struct {
	mu    sync.Mutex
	shown map[string]shown
}

type shown struct {
	preview
	until time.Time
}

// add keeps a preview, and returns its token.
func (p *previews) add(what preview) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, oldest := time.Now(), ""
	for token, s := range p.shown {
		if now.After(s.until) {
			delete(p.shown, token)
		} else if oldest == "" || s.until.Before(p.shown[oldest].until) {
			oldest = token
		}
	}
	if len(p.shown) >= mostPreviews {
		delete(p.shown, oldest)
	}
	token := rand.Text()
	p.shown[token] = shown{what, now.Add(confirmWithin)}
	return token
}

// take uses a token up, and reports whether it confirms exactly this.
func (p *previews) take(token string, what preview) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, there := p.shown[token]
	if !there || s.person != what.person || s.action != what.action || s.cluster != what.cluster {
		return false // it stays valid for the action for which it was made
	}
	delete(p.shown, token)
	return time.Now().Before(s.until) && reflect.DeepEqual(s.preview, what)
}

// changesOf returns the changes of a check, without their outcomes.
func changesOf(outcomes []plan.Outcome) []plan.Change {
	changes := make([]plan.Change, len(outcomes))
	for i, o := range outcomes {
		changes[i] = o.Change
	}
	return changes
}
