"""What operators ask all hosts at once: the agent's answers to netmaster's questions.

netmaster sends the same question to the agents of all hosts, and makes one answer of theirs
(`netmaster.api.leader.agents`). The routes are served beside those of `netplugin.startup.inspect`.
"""
