package redisstore

// OpenDialing is Open with a dialer.
var OpenDialing = open
