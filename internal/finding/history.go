package finding

// The code of the history.
const HistoryDegraded Code = "history-degraded"

// histories are the codes of the history.
var histories = []Description{
	{HistoryDegraded, Warning, "The history cannot be written",
		"Routes are still managed. The record of changes stays in memory until the file " +
			"can be written, and is lost if the program ends first. A damaged file is moved " +
			"aside, and a new one is started.",
		"Free space, or stop the process that locks the file. Or name another file with " +
			"--history, or none with --history off."},
}
