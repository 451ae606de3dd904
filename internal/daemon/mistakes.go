package daemon

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

// mistakes shows on the page and in the metrics which configs are refused, from files and from
// objects of the controller.
type mistakes struct {
	metrics *serve.Metrics
	board   *page.Board

	mu      sync.Mutex
	wrong   error // of the files
	refused []string
}

// file notes the error of the last read of the files, or nil.
func (m *mistakes) file(wrong error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = wrong
	m.show()
}

// objects notes the objects that are refused now, a line for each.
func (m *mistakes) objects(refused []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(refused, m.refused) {
		m.refused = refused
		m.show()
	}
}

func (m *mistakes) show() {
	n := len(m.refused)
	var lines []string
	if m.wrong != nil {
		n++
		lines = append(lines, "The new config has an error, so the old one stays in use: "+
			report.Plain(m.wrong.Error()))
	}
	switch len(m.refused) {
	case 0:
	case 1:
		lines = append(lines, "An object is refused: "+report.Plain(m.refused[0]))
	default:
		lines = append(lines, fmt.Sprintf("%d objects are refused, such as %s", len(m.refused),
			report.Plain(m.refused[0])))
	}
	m.metrics.Refused(n)
	m.board.Say(strings.Join(lines, " "))
}
