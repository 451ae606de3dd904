package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// insights is Microsoft.Insights: queries of the activity log, and its alerts.
type insights struct {
	kernel        *kernel
	authorization *authorization
	entra         *entra

	webhooks *webhooks
}

// types are the resource types of Microsoft.Insights.
func (s *insights) types() []kind {
	return []kind{
		{name: arm.TypeAlertRule, tracked: true, immediate: true, merges: true,
			settle: s.settleAlert},
		{name: arm.TypeActionGroup, tracked: true, immediate: true, merges: true,
			settle: s.settleActionGroup},
	}
}

// calls are the queries of the activity log.
func (s *insights) calls() []special { return []special{s.activityCall} }
