"""What a scripted mind says where no script tells it: lines that fit into most conversations, and lead nowhere dangerous."""

from __future__ import annotations

SPOKEN = (
    "Let us look at what we know before we guess at what we do not.",
    "I agree with half of that, and the other half is the interesting one.",
    "Somebody moved the lamp. Ask yourselves who needed the dark.",
    "If that is true, then the bell should have rung twice. I heard it once.",
    "We keep talking about the door. Nobody has mentioned the window.",
    "Give me one fact that would change your mind, and I will go and look for it.",
    "It is simpler than we make it: start small, and see what breaks.",
    "I was wrong about the first part. I still think the second part holds.",
    "There is a cost to that which nobody has counted yet: our time.",
    "Then we try it the other way round, and compare.",
    "The quiet one in the corner has not been asked. I should like to hear from there.",
    "That explains the footprints. It does not explain the umbrella.",
    "Two of us saw the same thing and told it differently. That is worth a closer look.",
    "Write it down as it happened, not as we wish it had.",
    "I would rather have a small answer today than a grand one too late.",
    "We have the map, the rope and the hour. What we lack is a reason to wait.",
    "Strange: it only happens when it rains.",
    "Leave that open for now. The next clue will close it, or it will not matter.",
    "Suppose our guess is the wrong way round. What would we see then?",
    "That is the best argument so far, and it comes from the least likely side.",
)

THOUGHT = (
    "They have not noticed yet. I had better be plain about it.",
    "I am less sure than I sound.",
    "That answer came too quickly.",
    "One more fact and I will make up my mind.",
    "I must not say this again in other words; it needs something new.",
    "Somebody here knows more than they tell.",
    "If nobody asks, I will bring it up myself.",
    "This is going better than I feared.",
)

JUDGED = (
    "Having weighed it all, I decide for the one who brought facts where others brought feelings.",
    "It was close. The clearer line of thought carries it.",
    "Both made their case; one of them also answered the other's.",
    "The boldest claim was also the best supported. That settles it.",
    "I looked for a reason to doubt it, and found none that would hold.",
    "The winner said less, and more of it was true.",
)

WORDS = ("amber", "birch", "candle", "drift", "ember", "fern", "gable", "harbour", "ivory", "juniper", "kettle", "lantern")
