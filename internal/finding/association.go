package finding

// associations are the codes of associations, beyond those of keeping.
var associations = []Description{}
