package finding

// The code of the record of what was done.
const HistoryDegraded Code = "history-degraded"

// histories are the codes of the record of what was done.
var histories = []Description{
	{HistoryDegraded, Warning, "The history cannot be written",
		"Routes are kept all the same. What was done is held in memory and written as soon as the file can be; it is lost when the program ends before that. A damaged file is put aside, and a new one begun.",
		"Free space, or end what holds the file locked; or name another file with --history, or none: --history off."},
}
