package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// insightsKinds are the resource types of Microsoft.Insights.
func (e *Emulator) insightsKinds() []kind {
	return []kind{
		{name: arm.TypeAlertRule, tracked: true, immediate: true, merges: true,
			settle: e.settleAlert},
		{name: arm.TypeActionGroup, tracked: true, immediate: true, merges: true,
			settle: e.settleActionGroup},
	}
}

// insightsCalls are the queries of the activity log.
func (e *Emulator) insightsCalls() []special { return []special{e.activityCall} }
