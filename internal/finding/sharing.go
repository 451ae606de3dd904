package finding

// sharing are the codes of what several clusters or networks share.
var sharing = []Description{}
