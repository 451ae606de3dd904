// Package insights is Microsoft.Insights: queries of the activity log, its alerts, and the webhooks
// of action groups.
package insights

import (
	"net/http"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/names"
)

// Options are the settings of alerts, as emulator.Options describes them.
type Options struct {
	AlertDelay time.Duration
	Webhooks   http.RoundTripper
}

// Insights is Microsoft.Insights.
type Insights struct {
	kernel        *kernel.Kernel
	opts          Options
	authorization *authorization.Authorization
	entra         *entra.Entra

	webhooks *webhooks
}

// New makes the service and adds it to the kernel.
func New(k *kernel.Kernel, d *entra.Entra, a *authorization.Authorization, opts Options) *Insights {
	s := &Insights{kernel: k, entra: d, authorization: a, opts: opts,
		webhooks: newWebhooks(opts.Webhooks, k.Log)}
	k.Add(kernel.Service{Types: s.types(), Names: names.Of("insights"),
		Calls: []kernel.Special{s.activityCall}, Listen: s.alert, Stop: s.webhooks.stop})
	return s
}

// Wait waits for pending alerts, without the lock: a posting goroutine does not hold it either.
func (s *Insights) Wait() { s.webhooks.under.Wait() }

// types returns the resource types of Microsoft.Insights.
func (s *Insights) types() []kernel.Kind {
	return []kernel.Kind{
		{Name: arm.TypeAlertRule, Tracked: true, Immediate: true, Merges: true,
			Settle: s.settleAlert},
		{Name: arm.TypeActionGroup, Tracked: true, Immediate: true, Merges: true,
			Facts: actionGroupFacts(), Settle: s.settleActionGroup},
	}
}
