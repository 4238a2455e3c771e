"""Systems of papers and other rules to compare with, as policies that use what every plug-in may use: `omega` alone."""
